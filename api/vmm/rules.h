// Virtual memory management: which arguments are right, the same for guests and for the software
// GPU. Whether a device exists is the caller's to know.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_API_VMM_RULES_H_
#define VGPU_API_VMM_RULES_H_

#include <cuda.h>

#include <cstdint>

namespace vgpu::vmm {

// Of cuMemCreate and cuMemMap, minimum and recommended.
inline constexpr uint64_t kGranularity = uint64_t{2} << 20;
inline constexpr uint64_t kHostPage = 4096;  // sizes and hints of cuMemAddressReserve

inline bool granular(uint64_t value) { return value % kGranularity == 0; }
inline uint64_t whole_granules(uint64_t bytes) {
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

// Memory of devices only.
inline CUresult check_location(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// `shares`: memory can be exported by descriptor. A wish for compression is not granted, which the
// properties of the handle then say, as they do natively.
inline CUresult check_properties(const CUmemAllocationProp* prop, bool shares) {
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_location(prop->location); r != CUDA_SUCCESS) return r;
  const bool known =
      prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE ||
      (shares && prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  const bool plain = prop->allocFlags.usage == 0 && prop->allocFlags.gpuDirectRDMACapable == 0;
  return known && plain ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

// What cuMemGetAllocationPropertiesFromHandle says of memory that these rules let through.
inline CUmemAllocationProp properties_of(CUdevice device, uint64_t handle_types) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(handle_types);
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  return prop;
}

// As cuMemAddressReserve; sizes are those of the host's pages.
inline bool reservation_valid(uint64_t bytes, uint64_t alignment, uint64_t hint) {
  return bytes != 0 && bytes % kHostPage == 0 && hint % kHostPage == 0 &&
         (alignment & (alignment - 1)) == 0;
}
// More than a process can address is never there.
inline bool reservation_fits(uint64_t bytes, uint64_t alignment) {
  constexpr uint64_t kMax = uint64_t{1} << 47;
  return bytes <= kMax && alignment <= kMax;
}

inline bool access_valid(CUmemAccess_flags flags) {
  return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
         flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

}  // namespace vgpu::vmm

#endif  // VGPU_API_VMM_RULES_H_
