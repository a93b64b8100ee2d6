// What is known of a pointer.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>
#include <sys/mman.h>

#include <cstring>

#include "driver_functions.h"
#include "softgpu/api/driver.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::enter;
using softgpu::MemoryKind;
using softgpu::MemoryRange;

constexpr auto kDecompression = static_cast<CUpointer_attribute>(21);  // older headers lack it

template <typename T>
CUresult put(void* data, T value) {
  std::memcpy(data, &value, sizeof(value));
  return CUDA_SUCCESS;
}

bool is_host(const MemoryRange& range) {
  return range.kind == MemoryKind::kHost || range.kind == MemoryKind::kRegisteredHost;
}

bool is_managed(const MemoryRange& range) {
  return range.kind == MemoryKind::kManaged || range.kind == MemoryKind::kManagedModule;
}

CUcontext context_of(const Context& current, const MemoryRange& range) {
  softgpu::Driver& driver = softgpu::Driver::instance();
  const uint64_t primary = range.owner - softgpu::kPrimaryId;
  if (primary < static_cast<uint64_t>(driver.device_count()))
    return driver.primary(static_cast<int>(primary)).handle;
  if (range.owner == current.id) return current.handle;
  const auto owner =
      driver.contexts.find_if([&range](const Context& each) { return each.id == range.owner; });
  return owner == nullptr ? nullptr : owner->handle;
}

// Mapped memory lies in a reservation, which is the range that is asked for.
MemoryRange reserved(const MemoryRange& range) {
  MemoryRange whole = range;
  if (range.kind == MemoryKind::kVirtual)
    softgpu::Driver::instance().device().physical().reservation_of(range.base, &whole.base,
                                                                   &whole.bytes);
  return whole;
}

unsigned access(const Context& current, const MemoryRange& range) {
  if (range.kind != MemoryKind::kVirtual) return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
  const int protection =
      current.device().physical().protection_at(range.base, current.device().config().ordinal);
  return (protection & PROT_WRITE) != 0  ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
         : (protection & PROT_READ) != 0 ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                         : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

// Addresses that are reserved, and nothing is mapped there.
bool only_reserved(CUpointer_attribute attribute, CUdeviceptr pointer, void* data) {
  uint64_t base = 0, bytes = 0;
  if (!softgpu::Driver::instance().device().physical().reservation_of(pointer, &base, &bytes))
    return false;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put<CUdeviceptr>(data, base) == CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put<size_t>(data, bytes) == CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put<bool>(data, false) == CUDA_SUCCESS;
    default:
      return false;
  }
}

// Answers for a pointer that the driver knows.
CUresult known(const Context& current, const MemoryRange& range, CUpointer_attribute attribute,
               CUdeviceptr pointer, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(data, context_of(current, range));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put<unsigned>(data, is_host(range) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put<CUdeviceptr>(data, pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!is_host(range) && !is_managed(range)) return CUDA_ERROR_INVALID_VALUE;
      return put<void*>(data, reinterpret_cast<void*>(pointer));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return put<unsigned>(data, range.sync_memops ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put<unsigned long long>(data, range.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put<unsigned>(data, is_managed(range) ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put<int>(data, range.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put<bool>(data, range.kind == MemoryKind::kDevice && !range.pooled);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put<CUdeviceptr>(data, reserved(range).base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put<size_t>(data, reserved(range).bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put<bool>(data, true);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put<unsigned long long>(data, softgpu::handle_types_at(pointer));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put<CUmemoryPool>(
          data, range.pooled ? softgpu::Driver::instance().pools().pool_of(range.base) : nullptr);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put<unsigned>(data, access(current, range));
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case kDecompression:
      return put<bool>(data, false);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return put<size_t>(data, range.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return put<CUdeviceptr>(data, range.base);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return put<unsigned long long>(data, is_host(range) ? range.base : range.id);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// cuPointerGetAttributes' answers for a pointer that the driver does not know.
void unknown(CUpointer_attribute attribute, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      put<int>(data, CU_DEVICE_INVALID);
      break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case kDecompression:
      put<bool>(data, false);
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      put<unsigned>(data, 0);
      break;
    default:
      put<uint64_t>(data, 0);
      break;
  }
}

bool attribute_valid(CUpointer_attribute attribute) {
  return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT && attribute <= kDecompression;
}

}  // namespace

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (data == nullptr || !attribute_valid(attribute)) return CUDA_ERROR_INVALID_VALUE;
  const auto range = context->device().memory().find(pointer);
  if (!range.has_value())
    return only_reserved(attribute, pointer, data) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  return known(*context, *range, attribute, pointer, data);
}

// Blocking calls always wait here, so that it is only remembered.
CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                               CUdeviceptr pointer) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
    return CUDA_ERROR_INVALID_VALUE;
  const auto range = context->device().memory().find(pointer);
  if (!range.has_value()) return CUDA_ERROR_INVALID_VALUE;
  softgpu::MemorySpace& where = softgpu::Driver::instance().device(range->device).memory();
  const bool on = *static_cast<const unsigned*>(value) != 0;
  return where.set_sync_memops(pointer, on) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr pointer) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (!attribute_valid(attributes[i]) || data[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  const auto range = context->device().memory().find(pointer);
  for (unsigned i = 0; i < count; ++i) {
    if (!range.has_value() && only_reserved(attributes[i], pointer, data[i])) continue;
    if (!range.has_value() ||
        known(*context, *range, attributes[i], pointer, data[i]) != CUDA_SUCCESS) {
      unknown(attributes[i], data[i]);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
