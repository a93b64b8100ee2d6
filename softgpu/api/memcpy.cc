// Linear copies.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <optional>

#include "api/calls/hooks.h"
#include "api/default_stream.h"
#include "driver_functions.h"
#include "softgpu/api/capture_hooks.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/transfer.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::enter;
using softgpu::PointerSide;
using softgpu::Wait;

// Which sides of a copy must be memory that the driver knows.
enum Known : unsigned { kNeither = 0, kDestination = 1, kSource = 2 };

// What capture makes of a copy. A side that must be known is device memory; the other one is the
// host's, or what its address says.
std::optional<CUresult> captured(Context& context, uint64_t destination, uint64_t source,
                                 size_t bytes, CUstream handle, Wait wait, unsigned known) {
  const std::shared_ptr<softgpu::Stream> stream = softgpu::find_stream(context, handle);
  if (stream == nullptr) return green::lost_stream(handle);
  if (wait == Wait::kYes) {
    const CUresult r = softgpu::check_stream_use(*stream);
    return r == CUDA_SUCCESS ? std::nullopt : std::optional<CUresult>(r);
  }
  const auto type = [known](Known side) {
    return known == kNeither     ? CU_MEMORYTYPE_UNIFIED
           : (known & side) != 0 ? CU_MEMORYTYPE_DEVICE
                                 : CU_MEMORYTYPE_HOST;
  };
  return graph::capture_copy(
      softgpu::key_of(*stream),
      graph::linear_copy(destination, type(kDestination), source, type(kSource), bytes));
}

CUresult checked_copy(uint64_t destination, uint64_t source, size_t bytes, CUstream stream,
                      Wait wait, unsigned known) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (graph::watching()) [[unlikely]] {
    const auto taken = captured(*context, destination, source, bytes, stream, wait, known);
    if (taken.has_value()) return *taken;
  }
  if (bytes == 0) return CUDA_SUCCESS;
  if (destination == 0 || source == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto pageable = [context](uint64_t address) {
    return softgpu::side_of(*context, address) == PointerSide::kPageable;
  };
  if ((known & kDestination) != 0 && pageable(destination)) return CUDA_ERROR_INVALID_VALUE;
  if ((known & kSource) != 0 && pageable(source)) return CUDA_ERROR_INVALID_VALUE;
  return softgpu::copy(*context, destination, source, bytes, stream, wait);
}

uint64_t address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return checked_copy(dst, src, bytes, default_stream(), Wait::kYes, kNeither);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return checked_copy(dst, src, bytes, stream, Wait::kNo, kNeither);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void* src, size_t bytes) {
  return checked_copy(dst, address(src), bytes, default_stream(), Wait::kYes, kDestination);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void* src, size_t bytes, CUstream stream) {
  return checked_copy(dst, address(src), bytes, stream, Wait::kNo, kDestination);
}

CUresult cuMemcpyDtoH_v2(void* dst, CUdeviceptr src, size_t bytes) {
  return checked_copy(address(dst), src, bytes, default_stream(), Wait::kYes, kSource);
}

CUresult cuMemcpyDtoHAsync_v2(void* dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return checked_copy(address(dst), src, bytes, stream, Wait::kNo, kSource);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return checked_copy(dst, src, bytes, default_stream(), Wait::kYes, kDestination | kSource);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return checked_copy(dst, src, bytes, stream, Wait::kNo, kDestination | kSource);
}

}  // namespace vgpu::driver

namespace vgpu::calls {

CUresult copy_in_batch(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
                       SourceAccess* access) {
  softgpu::Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  const softgpu::Reads reads = softgpu::reads_of(access->order);
  if (reads == softgpu::Reads::kBeforeReturn &&
      softgpu::side_of(*context, from) == softgpu::PointerSide::kDevice) {
    access->wait_at_end = true;
  }
  return softgpu::copy(*context, to, from, bytes, stream, softgpu::Wait::kNo, reads);
}

}  // namespace vgpu::calls
