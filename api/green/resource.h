// What a CUdevResource carries where cuda.h has padding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace vgpu::green {

// Programs copy resources as they like and give none back, so all that there is to know of one is
// in it, or is kept for good.
struct ResourceTag {
  uint64_t mark = 0;                // kResourceMark in one of ours
  uint64_t key = 0;                 // the back end's, where `words` is not enough
  uint64_t split = 0;               // which split made it; 0: none has
  std::array<uint64_t, 4> words{};  // the back end's
  int32_t device = 0;
  uint32_t reserved = 0;
};
inline constexpr uint64_t kResourceMark = 0x7667'7075'2d72'6573;
static_assert(sizeof(ResourceTag) <= sizeof(CUdevResource::_internal_padding));

inline ResourceTag tag_of(const CUdevResource& resource) {
  ResourceTag tag;
  std::memcpy(&tag, resource._internal_padding, sizeof(tag));
  return tag;
}

// A resource of SMs.
inline CUdevResource make_resource(const CUdevSmResource& sm, ResourceTag tag) {
  CUdevResource resource;
  std::memset(&resource, 0, sizeof(resource));
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  resource.sm = sm;
  tag.mark = kResourceMark;
  std::memcpy(resource._internal_padding, &tag, sizeof(tag));
  return resource;
}

}  // namespace vgpu::green
