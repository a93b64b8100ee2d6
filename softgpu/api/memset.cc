// Linear fills.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <optional>

#include "api/default_stream.h"
#include "driver_functions.h"
#include "softgpu/api/capture_hooks.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/transfer_rect.h"

namespace vgpu::driver {
namespace {

using softgpu::Wait;

// What capture makes of a fill.
std::optional<CUresult> captured(softgpu::Context& context,
                                 const CUDA_MEMSET_NODE_PARAMS_v2& params, CUstream handle,
                                 Wait wait) {
  const std::shared_ptr<softgpu::Stream> stream = softgpu::find_stream(context, handle);
  if (stream == nullptr) return green::lost_stream(handle);
  if (wait == Wait::kNo) return graph::capture_fill(softgpu::key_of(*stream), params);
  const CUresult r = softgpu::check_stream_use(*stream);
  return r == CUDA_SUCCESS ? std::nullopt : std::optional<CUresult>(r);
}

CUresult checked_fill(CUdeviceptr address, uint32_t value, uint32_t width, size_t count,
                      CUstream stream, Wait wait) {
  softgpu::Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  if (graph::watching()) [[unlikely]] {
    const CUDA_MEMSET_NODE_PARAMS_v2 params = {address, 0, value, width, count, 1, nullptr};
    if (const auto taken = captured(*context, params, stream, wait)) return *taken;
  }
  return softgpu::fill(*context, address, value, width, count, stream, wait);
}

CUresult checked_rect(CUdeviceptr address, size_t pitch, uint32_t value, uint32_t width,
                      size_t count, size_t height, CUstream stream, Wait wait) {
  softgpu::Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  if (graph::watching()) [[unlikely]] {
    const CUDA_MEMSET_NODE_PARAMS_v2 params = {address, pitch,  value,  width,
                                               count,   height, nullptr};
    if (const auto taken = captured(*context, params, stream, wait)) return *taken;
  }
  return softgpu::fill_rect(*context, address, pitch, value, width, count, height, stream, wait);
}

}  // namespace

CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t count) {
  return checked_fill(dst, value, 1, count, default_stream(), Wait::kYes);
}

CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t count) {
  return checked_fill(dst, value, 2, count, default_stream(), Wait::kYes);
}

CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned int value, size_t count) {
  return checked_fill(dst, value, 4, count, default_stream(), Wait::kYes);
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream) {
  return checked_fill(dst, value, 1, count, stream, Wait::kNo);
}

CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count, CUstream stream) {
  return checked_fill(dst, value, 2, count, stream, Wait::kNo);
}

CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t count, CUstream stream) {
  return checked_fill(dst, value, 4, count, stream, Wait::kNo);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
                         size_t height) {
  return checked_rect(dst, pitch, value, 1, width, height, default_stream(), Wait::kYes);
}

CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return checked_rect(dst, pitch, value, 1, width, height, stream, Wait::kNo);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
                          size_t height) {
  return checked_rect(dst, pitch, value, 2, width, height, default_stream(), Wait::kYes);
}

CUresult cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream) {
  return checked_rect(dst, pitch, value, 2, width, height, stream, Wait::kNo);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
                          size_t height) {
  return checked_rect(dst, pitch, value, 4, width, height, default_stream(), Wait::kYes);
}

CUresult cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
                            size_t height, CUstream stream) {
  return checked_rect(dst, pitch, value, 4, width, height, stream, Wait::kNo);
}

}  // namespace vgpu::driver
