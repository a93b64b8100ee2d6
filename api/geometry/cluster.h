// Which clusters a launch has, by what its kernel demands and the caller asks for: the same rules
// on both sides of the channel. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>

namespace vgpu {

inline constexpr uint32_t kPortableClusterBlocks = 8, kClusterBlocksMax = 16;

// In blocks, by axis; all zeros: none is named.
struct ClusterSize {
  uint32_t axis[3] = {0, 0, 0};

  bool named() const { return (axis[0] | axis[1] | axis[2]) != 0; }
  uint64_t blocks() const { return uint64_t{axis[0]} * axis[1] * axis[2]; }
  bool operator==(const ClusterSize&) const = default;
};

// What is known of a kernel and its device.
struct ClusterRules {
  ClusterSize required;       // CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_*
  bool must_be_set = false;   // CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET
  bool non_portable = false;  // CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
  uint32_t most = 0;          // of the kernel's launch bounds; 0: none known
  bool served = false;        // CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH
};

// `attribute`: gives the kernel's attribute of a number.
template <typename Attribute>
ClusterRules cluster_rules(const Attribute& attribute, bool served) {
  ClusterRules rules;
  for (int i = 0; i < 3; ++i) {
    rules.required.axis[i] = static_cast<uint32_t>(attribute(static_cast<CUfunction_attribute>(
        static_cast<int>(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) + i)));
  }
  rules.must_be_set = attribute(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET) != 0;
  rules.non_portable = attribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) != 0;
  rules.served = served;
  return rules;
}

// *chosen: what the launch gets; not named: it is one without clusters. INVALID_CLUSTER_SIZE for
// what the kernel, the portable size or the grid does not allow; NOT_SUPPORTED where the device has
// none.
CUresult choose_cluster(const ClusterRules& rules, const uint32_t (&grid)[3],
                        const ClusterSize& asked, ClusterSize* chosen);

// Blocks of the largest cluster that the kernel may be launched with.
uint32_t largest_cluster(const ClusterRules& rules);

// Clusters of `blocks` blocks that run at once on a device where `per_multiprocessor` blocks fit on
// each. One always does, if a block does.
int active_clusters(int per_multiprocessor, int multiprocessors, uint64_t blocks);

// The same for what a launch asks for, whatever its grid. INVALID_CLUSTER_SIZE when neither it nor
// the kernel names a size, and as launches; none where the device has no clusters.
CUresult count_clusters(const ClusterRules& rules, const ClusterSize& asked, int per_multiprocessor,
                        int multiprocessors, int* count);

// The last size that the attributes of a launch name, else none.
ClusterSize asked_cluster(const CUlaunchAttribute* attributes, unsigned count);
inline ClusterSize cluster_size(const CUlaunchAttributeValue& value) {
  return {{value.clusterDim.x, value.clusterDim.y, value.clusterDim.z}};
}

// A size that is named and not too large, in a word of a launch's record; 0: none.
uint32_t pack_cluster(const ClusterSize& size);
// False for words that stand for no such size.
bool unpack_cluster(uint32_t word, ClusterSize* size);

}  // namespace vgpu
