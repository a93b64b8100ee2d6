// Ranges of managed memory: what is answered about them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "api/managed/managed_ranges.h"

namespace vgpu {
namespace {

// The number by which the attributes of the first form name a location.
int32_t number_of(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return location.id;
    case CU_MEM_LOCATION_TYPE_HOST:
      return CU_DEVICE_CPU;
    default:
      return CU_DEVICE_INVALID;
  }
}

}  // namespace

CUresult ManagedRanges::get_locked(void* data, size_t data_bytes, CUmem_range_attribute which,
                                   const Advice& advice) {
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (which == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
    if (data_bytes == 0 || data_bytes % sizeof(int32_t) != 0) return CUDA_ERROR_INVALID_VALUE;
    auto* const devices = static_cast<int32_t*>(data);
    const size_t room = data_bytes / sizeof(int32_t);
    std::fill_n(devices, room, CU_DEVICE_INVALID);
    size_t at = 0;
    for (int device = 0; device < devices_ && at < room; ++device) {
      if ((advice.accessed_by_devices >> device & 1) != 0) devices[at++] = device;
    }
    if (advice.accessed_by_host && at < room) devices[at] = CU_DEVICE_CPU;
    return CUDA_SUCCESS;
  }
  if (data_bytes != sizeof(int32_t)) return CUDA_ERROR_INVALID_VALUE;
  int32_t value = 0;
  switch (which) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      value = advice.read_mostly ? 1 : 0;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      value = number_of(advice.preferred);
      break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      value = number_of(advice.prefetched);
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      value = advice.preferred.type;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      value = advice.preferred.id;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      value = advice.prefetched.type;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      value = advice.prefetched.id;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  std::memcpy(data, &value, sizeof(value));
  return CUDA_SUCCESS;
}

CUresult ManagedRanges::get(void* data, size_t data_bytes, CUmem_range_attribute which,
                            uint64_t address, uint64_t bytes) {
  return get(&data, &data_bytes, &which, 1, address, bytes);
}

CUresult ManagedRanges::get(void** data, const size_t* data_bytes,
                            const CUmem_range_attribute* which, size_t count, uint64_t address,
                            uint64_t bytes) {
  if (data == nullptr || data_bytes == nullptr || which == nullptr || count == 0 || bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex_);
  uint64_t offset = 0;
  const Block* block = find(address, bytes, &offset);
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Advice advice = common(*block, offset, bytes);
  for (size_t i = 0; i < count; ++i) {
    const CUresult result = get_locked(data[i], data_bytes[i], which[i], advice);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace vgpu
