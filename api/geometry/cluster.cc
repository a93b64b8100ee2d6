// Sizes of clusters.
// SPDX-License-Identifier: Apache-2.0
#include "api/geometry/cluster.h"

#include <algorithm>

namespace vgpu {
namespace {

constexpr uint32_t kAxisBits = 8;

uint32_t limit_of(const ClusterRules& rules) {
  const uint32_t limit = rules.non_portable ? kClusterBlocksMax : kPortableClusterBlocks;
  return rules.most != 0 ? std::min(rules.most, limit) : limit;
}

}  // namespace

CUresult choose_cluster(const ClusterRules& rules, const uint32_t (&grid)[3],
                        const ClusterSize& asked, ClusterSize* chosen) {
  *chosen = asked.named() ? asked : rules.required;
  if (!chosen->named()) return rules.must_be_set ? CUDA_ERROR_INVALID_CLUSTER_SIZE : CUDA_SUCCESS;
  if (rules.required.named() && *chosen != rules.required) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  for (int i = 0; i < 3; ++i) {
    const uint32_t blocks = chosen->axis[i];
    if (blocks == 0 || blocks > kClusterBlocksMax || grid[i] % blocks != 0)
      return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  }
  if (!rules.served) {
    const bool single = chosen->blocks() == 1;
    *chosen = {};
    return single ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  }
  return chosen->blocks() <= limit_of(rules) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

uint32_t largest_cluster(const ClusterRules& rules) {
  if (!rules.served) return 1;
  return rules.required.named() ? static_cast<uint32_t>(rules.required.blocks()) : limit_of(rules);
}

int active_clusters(int per_multiprocessor, int multiprocessors, uint64_t blocks) {
  if (per_multiprocessor <= 0 || blocks == 0) return 0;
  const uint64_t all = static_cast<uint64_t>(per_multiprocessor) * multiprocessors;
  return static_cast<int>(std::max<uint64_t>(1, all / blocks));
}

CUresult count_clusters(const ClusterRules& rules, const ClusterSize& asked, int per_multiprocessor,
                        int multiprocessors, int* count) {
  const ClusterSize& named = asked.named() ? asked : rules.required;
  if (!named.named()) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  ClusterSize chosen;
  const CUresult result = choose_cluster(rules, {0, 0, 0}, asked, &chosen);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_SUPPORTED) return result;
  const bool none = result == CUDA_ERROR_NOT_SUPPORTED;
  *count = none ? 0 : active_clusters(per_multiprocessor, multiprocessors, named.blocks());
  return CUDA_SUCCESS;
}

ClusterSize asked_cluster(const CUlaunchAttribute* attributes, unsigned count) {
  ClusterSize asked;
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      asked = cluster_size(attributes[i].value);
  }
  return asked;
}

uint32_t pack_cluster(const ClusterSize& size) {
  return size.axis[0] | size.axis[1] << kAxisBits | size.axis[2] << (2 * kAxisBits);
}

bool unpack_cluster(uint32_t word, ClusterSize* size) {
  constexpr uint32_t kMask = (1u << kAxisBits) - 1;
  for (uint32_t i = 0; i < 3; ++i) size->axis[i] = word >> (i * kAxisBits) & kMask;
  if (word == 0) return true;
  return word >> (3 * kAxisBits) == 0 && size->blocks() - 1 < kClusterBlocksMax;
}

}  // namespace vgpu
