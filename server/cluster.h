// The cluster of a launch, as its record names it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/geometry/cluster.h"

namespace vgpu::server {

// Whether the guest's word stands for a size at all; the driver judges whether it fits the launch.
inline bool good_cluster(uint32_t word) {
  ClusterSize size;
  return unpack_cluster(word, &size);
}

// Of a good word that is not 0, as the driver's attribute.
inline CUlaunchAttributeValue cluster_value(uint32_t word) {
  ClusterSize size;
  (void)unpack_cluster(word, &size);
  CUlaunchAttributeValue value = {};
  value.clusterDim.x = size.axis[0];
  value.clusterDim.y = size.axis[1];
  value.clusterDim.z = size.axis[2];
  return value;
}

}  // namespace vgpu::server
