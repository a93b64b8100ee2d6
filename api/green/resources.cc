// Resources of devices and contexts, how they are split, and descriptors of them.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <mutex>
#include <vector>

#include "api/graph/backend.h"
#include "api/green/backend.h"
#include "api/green/descriptor.h"
#include "api/green/resource.h"
#include "driver_functions.h"

namespace vgpu::green {
namespace {

// Descriptors are given for good: the same resources have the same one. An id is an index and one.
struct Descriptors {
  std::mutex mutex;
  std::vector<Descriptor> all;
};

Descriptors& descriptors() {
  static Descriptors* const made = new Descriptors();
  return *made;
}

// Handles with bits that no address in the program has.
constexpr uint64_t kDescriptorBits = uint64_t{0x66} << 56;

bool same(const Descriptor& one, const Descriptor& other) {
  if (one.resources.size() != other.resources.size()) return false;
  for (size_t i = 0; i < one.resources.size(); ++i) {
    if (std::memcmp(&one.resources[i], &other.resources[i], sizeof(CUdevResource)) != 0)
      return false;
  }
  return true;
}

CUresult check_type(CUdevResourceType type) {
  return type == CU_DEV_RESOURCE_TYPE_SM ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

// Of a resource that a program hands in.
CUresult check_resource(const CUdevResource& resource) {
  if (const CUresult r = check_type(resource.type); r != CUDA_SUCCESS) return r;
  return tag_of(resource).mark == kResourceMark ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

constexpr unsigned kSplitFlags = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
                                 CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;

}  // namespace

bool find_descriptor(CUdevResourceDesc handle, Descriptor* found) {
  const uint64_t id = reinterpret_cast<uint64_t>(handle) ^ kDescriptorBits;
  std::lock_guard lock(descriptors().mutex);
  if (id == 0 || id > descriptors().all.size()) return false;
  *found = descriptors().all[id - 1];
  return true;
}

CUdevResourceDesc keep_descriptor(Descriptor descriptor) {
  std::lock_guard lock(descriptors().mutex);
  std::vector<Descriptor>& all = descriptors().all;
  size_t index = 0;
  while (index < all.size() && !same(all[index], descriptor)) ++index;
  if (index == all.size()) all.push_back(std::move(descriptor));
  return reinterpret_cast<CUdevResourceDesc>(kDescriptorBits ^ (index + 1));
}

}  // namespace vgpu::green

namespace vgpu::driver {

using green::Green;

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  if (const CUresult r = graph::backend().check_device(device); r != CUDA_SUCCESS) return r;
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = green::check_type(type); r != CUDA_SUCCESS) return r;
  return green::resource_of_device(device, resource);
}

CUresult cuCtxGetDevResource(CUcontext context, CUdevResource* resource, CUdevResourceType type) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  unsigned version = 0;  // asked for the check of the handle
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult r = driver::cuCtxGetApiVersion(context, &version); r != CUDA_SUCCESS) return r;
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = green::check_type(type); r != CUDA_SUCCESS) return r;
  const Green* const view = green::find_view(context);
  if (view == nullptr) return green::resource_of_context(context, resource);
  *resource = view->resource;
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource* resource,
                                  CUdevResourceType type) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  const Green* const found = green::find(handle);
  if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!found->alive.load(std::memory_order_acquire)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = green::check_type(type); r != CUDA_SUCCESS) return r;
  *resource = found->resource;
  return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* count,
                                     const CUdevResource* input, CUdevResource* remaining,
                                     unsigned int flags, unsigned int minimum) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  if (count == nullptr || input == nullptr || (flags & ~green::kSplitFlags) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = green::check_resource(*input); r != CUDA_SUCCESS) return r;
  if (minimum > input->sm.smCount || (result != nullptr && *count == 0))
    return CUDA_ERROR_INVALID_VALUE;
  // What a split has made is for a descriptor first.
  if (green::tag_of(*input).split != 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  green::Split split;
  const unsigned room = result == nullptr ? UINT32_MAX : *count;
  if (const CUresult r = green::split(*input, flags, minimum, room, &split); r != CUDA_SUCCESS)
    return r;
  *count = static_cast<unsigned>(split.groups.size());
  if (result == nullptr) return CUDA_SUCCESS;
  for (unsigned i = 0; i < *count; ++i) result[i] = split.groups[i];
  if (remaining != nullptr) *remaining = split.remaining;
  return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* descriptor, CUdevResource* resources,
                                   unsigned int count) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  if (descriptor == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  green::Descriptor made;
  for (unsigned i = 0; i < count; ++i) {
    if (const CUresult r = green::check_resource(resources[i]); r != CUDA_SUCCESS) return r;
    const green::ResourceTag first = green::tag_of(resources[0]),
                             each = green::tag_of(resources[i]);
    // Of one device, and when there are several, of one split.
    if (each.device != first.device || each.split != first.split || (i > 0 && each.split == 0))
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    made.device = each.device;
    made.resources.push_back(resources[i]);
  }
  *descriptor = green::keep_descriptor(std::move(made));
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
