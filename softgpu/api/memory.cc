// Device memory.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/external/external_memory.h"
#include "api/graph/capture.h"
#include "api/graph/memory.h"
#include "driver_functions.h"
#include "softgpu/api/driver.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::enter;
using softgpu::enter_ignoring_errors;
using softgpu::MemoryKind;

constexpr size_t kPitchAlignment = 512;

CUresult allocate(Context& context, CUdeviceptr* out, size_t bytes) {
  if (const CUresult r = graph::check_unsafe(); r != CUDA_SUCCESS) return r;
  const uint64_t address = context.allocate(bytes, MemoryKind::kDevice);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  return CUDA_SUCCESS;
}

void finish_work_of(uint64_t owner) {
  const std::shared_ptr<Context> context = softgpu::Driver::instance().contexts.find_if(
      [owner](const Context& each) { return each.id == owner && each.alive(); });
  if (context != nullptr) context->device().management().wait_for_all(*context->channel());
}

}  // namespace

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return allocate(*context, out, bytes);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                            unsigned int element) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr || pitch == nullptr || width == 0 || height == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  if (width > INT32_MAX || height > SIZE_MAX / (width + kPitchAlignment))
    return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  return allocate(*context, out, *pitch * height);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  Context* context = nullptr;
  if (const CUresult result = enter_ignoring_errors(&context); result != CUDA_SUCCESS)
    return result;
  if (address == 0) return CUDA_SUCCESS;
  if (const CUresult r = graph::check_unsafe(); r != CUDA_SUCCESS) return r;
  softgpu::MemorySpace& memory = context->device().memory();
  if (const auto freed = graph::free_memory(address)) return *freed;
  const auto range = memory.find(address);
  const bool managed = range.has_value() && range->kind == MemoryKind::kManaged;
  if (range.has_value() && range->kind == MemoryKind::kVirtual) {
    const CUresult sticky = context->synchronise();
    return external::free_buffer(address) ? sticky : CUDA_ERROR_INVALID_VALUE;
  }
  // Another process' that a pool here has imported.
  const bool imported = range.has_value() && range->kind == MemoryKind::kPeer && range->pooled;
  if (!range.has_value() || range->base != address ||
      (range->kind != MemoryKind::kDevice && !managed && !imported)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // As native: what may still use the block is waited for, in its own context as well.
  const CUresult sticky = context->synchronise();
  if (range->owner != context->id) finish_work_of(range->owner);
  if (managed) {
    softgpu::Driver::instance().managed.remove(address);
    return memory.free_host(address, MemoryKind::kManaged) ? sticky : CUDA_ERROR_INVALID_VALUE;
  }
  const bool freed =
      range->pooled ? softgpu::Driver::instance().pools()->free_now(address) : memory.free(address);
  if (!freed) return CUDA_ERROR_INVALID_VALUE;
  return sticky;
}

CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  softgpu::DeviceSegment& segment = context->device().segment();
  const uint64_t total = segment.memory_bytes();
  const uint64_t used = segment.used_bytes();
  if (total_bytes != nullptr) *total_bytes = total;
  if (free_bytes != nullptr) *free_bytes = used < total ? total - used : 0;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  const auto range = context->device().memory().find(address);
  if (!range.has_value()) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = range->base;
  if (bytes != nullptr) *bytes = range->bytes;
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
