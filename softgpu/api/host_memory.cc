// Pinned host memory: on this device every host page can be read by kernels, so pinning is
// bookkeeping. SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/graph/capture.h"
#include "driver_functions.h"
#include "softgpu/api/driver.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::enter;
using softgpu::enter_ignoring_errors;
using softgpu::MemoryKind;
using softgpu::MemorySpace;

constexpr unsigned kAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

bool is_host(const std::optional<softgpu::MemoryRange>& range) {
  return range.has_value() &&
         (range->kind == MemoryKind::kHost || range->kind == MemoryKind::kRegisteredHost);
}

}  // namespace

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr || bytes == 0 || (flags & ~kAllocFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = graph::check_unsafe(); r != CUDA_SUCCESS) return r;
  // With unified addressing all of it is mapped and portable, whatever was asked.
  const unsigned kept = flags | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE;
  const uint64_t address = context->device().memory().allocate_host(bytes, kept, context->id);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<void*>(address);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void** out, size_t bytes) {
  return driver::cuMemHostAlloc(out, bytes, 0);
}

CUresult cuMemFreeHost(void* pointer) {
  Context* context = nullptr;
  if (const CUresult result = enter_ignoring_errors(&context); result != CUDA_SUCCESS)
    return result;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = graph::check_unsafe(); r != CUDA_SUCCESS) return r;
  MemorySpace& memory = context->device().memory();
  const auto range = memory.find(reinterpret_cast<uint64_t>(pointer));
  if (!range.has_value() || range->kind != MemoryKind::kHost ||
      range->base != reinterpret_cast<uint64_t>(pointer)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult sticky = context->synchronise();
  if (!memory.free_host(range->base)) return CUDA_ERROR_INVALID_VALUE;
  return sticky;
}

CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int flags) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (pointer == nullptr || bytes == 0 || (flags & ~kRegisterFlags) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  switch (context->device().memory().register_host(reinterpret_cast<uint64_t>(pointer), bytes,
                                                   flags, context->id)) {
    case MemorySpace::Registration::kDone:
      return CUDA_SUCCESS;
    case MemorySpace::Registration::kAlready:
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuMemHostUnregister(void* pointer) {
  Context* context = nullptr;
  if (const CUresult result = enter_ignoring_errors(&context); result != CUDA_SUCCESS)
    return result;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult sticky = context->synchronise();
  if (!context->device().memory().unregister_host(reinterpret_cast<uint64_t>(pointer))) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  return sticky;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int flags) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!is_host(context->device().memory().find(reinterpret_cast<uint64_t>(pointer))))
    return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto range = context->device().memory().find(reinterpret_cast<uint64_t>(pointer));
  if (!range.has_value() || range->kind != MemoryKind::kHost) return CUDA_ERROR_INVALID_VALUE;
  *flags = range->flags;
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
