// Attributes of kernel nodes.
// SPDX-License-Identifier: Apache-2.0
#include "api/graph/node.h"

namespace vgpu::graph {
namespace {

bool known(CUlaunchAttributeID which) {
  switch (which) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      return true;
    default:
      return false;
  }
}

}  // namespace

CUresult KernelAttributes::get(CUlaunchAttributeID which, CUlaunchAttributeValue* value) const {
  if (!known(which)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = values_.find(which);
  *value = found == values_.end() ? CUlaunchAttributeValue{} : found->second;
  return CUDA_SUCCESS;
}

CUresult KernelAttributes::set(CUlaunchAttributeID which, const CUlaunchAttributeValue& value) {
  if (!known(which)) return CUDA_ERROR_INVALID_VALUE;
  values_[which] = value;
  return CUDA_SUCCESS;
}

bool KernelAttributes::cooperative() const {
  const auto found = values_.find(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  return found != values_.end() && found->second.cooperative != 0;
}

ClusterSize KernelAttributes::cluster() const {
  const auto found = values_.find(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  return found == values_.end() ? ClusterSize() : cluster_size(found->second);
}

bool KernelAttributes::priority(int* value) const {
  const auto found = values_.find(CU_LAUNCH_ATTRIBUTE_PRIORITY);
  if (found == values_.end()) return false;
  *value = found->second.priority;
  return true;
}

}  // namespace vgpu::graph
