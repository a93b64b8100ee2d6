// Two- and three-dimensional copies, and copies to and from arrays.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <climits>
#include <optional>

#include "api/calls/hooks.h"
#include "api/default_stream.h"
#include "driver_functions.h"
#include "softgpu/api/capture_hooks.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/transfer_rect.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::Wait;

std::optional<CUresult> captured(Context& context, const CUDA_MEMCPY3D* copy, CUstream handle,
                                 Wait wait) {
  const std::shared_ptr<softgpu::Stream> stream = softgpu::find_stream(context, handle);
  if (stream == nullptr) return green::lost_stream(handle);
  if (wait == Wait::kYes) {
    const CUresult r = softgpu::check_stream_use(*stream);
    return r == CUDA_SUCCESS ? std::nullopt : std::optional<CUresult>(r);
  }
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return graph::capture_copy(softgpu::key_of(*stream), *copy);
}

std::optional<CUresult> captured(Context& context, const CUDA_MEMCPY2D* copy, CUstream handle,
                                 Wait wait) {
  if (copy == nullptr) return captured(context, static_cast<CUDA_MEMCPY3D*>(nullptr), handle, wait);
  const CUDA_MEMCPY3D box = graph::box_of(*copy);
  return captured(context, &box, handle, wait);
}

template <typename Descriptor>
CUresult described(const Descriptor* descriptor, CUstream stream, Wait wait) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  if (graph::watching()) [[unlikely]] {
    if (const auto taken = captured(*context, descriptor, stream, wait)) return *taken;
  }
  RectCopy rect;
  if (const CUresult r = to_rect(descriptor, INT_MAX, &rect); r != CUDA_SUCCESS) return r;
  return softgpu::copy_rect(*context, rect, stream, wait);
}

// One row.
CUresult row(const RectSide& to, const RectSide& from, size_t bytes, CUstream stream, Wait wait) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  if (graph::watching()) [[unlikely]] {
    const CUDA_MEMCPY3D box = graph::box_of(to, from, bytes);
    if (const auto taken = captured(*context, &box, stream, wait)) return *taken;
  }
  RectCopy rect;
  rect.to = to;
  rect.from = from;
  rect.width = bytes;
  for (const RectSide* side : {&to, &from}) {
    if (bytes != 0 && !side->is_array() && side->address == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  return softgpu::copy_rect(*context, rect, stream, wait);
}

RectSide host(const void* pointer, size_t bytes) {
  return memory_side(CU_MEMORYTYPE_HOST, reinterpret_cast<uint64_t>(pointer), bytes);
}

RectSide device(CUdeviceptr address, size_t bytes) {
  return memory_side(CU_MEMORYTYPE_DEVICE, address, bytes);
}

}  // namespace

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) {
  return described(copy, default_stream(), Wait::kYes);
}

// The same: no pitch is too odd for a processor.
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) {
  return described(copy, default_stream(), Wait::kYes);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return described(copy, stream, Wait::kNo);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) {
  return described(copy, default_stream(), Wait::kYes);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return described(copy, stream, Wait::kNo);
}

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) {
  return row(array_side(to, offset), device(from, bytes), bytes, default_stream(), Wait::kYes);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) {
  return row(device(to, bytes), array_side(from, offset), bytes, default_stream(), Wait::kYes);
}

CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void* from, size_t bytes) {
  return row(array_side(to, offset), host(from, bytes), bytes, default_stream(), Wait::kYes);
}

CUresult cuMemcpyAtoH_v2(void* to, CUarray from, size_t offset, size_t bytes) {
  return row(host(to, bytes), array_side(from, offset), bytes, default_stream(), Wait::kYes);
}

CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                         size_t bytes) {
  return row(array_side(to, to_offset), array_side(from, from_offset), bytes, default_stream(),
             Wait::kYes);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void* from, size_t bytes,
                              CUstream stream) {
  return row(array_side(to, offset), host(from, bytes), bytes, stream, Wait::kNo);
}

CUresult cuMemcpyAtoHAsync_v2(void* to, CUarray from, size_t offset, size_t bytes,
                              CUstream stream) {
  return row(host(to, bytes), array_side(from, offset), bytes, stream, Wait::kNo);
}

}  // namespace vgpu::driver

namespace vgpu::calls {

CUresult copy_in_batch(const CUDA_MEMCPY3D& box, CUstream stream, SourceAccess* access) {
  softgpu::Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  RectCopy rect;
  if (const CUresult r = to_rect(&box, INT_MAX, &rect); r != CUDA_SUCCESS) return r;
  const softgpu::Reads reads = softgpu::reads_of(access->order);
  if (reads == softgpu::Reads::kBeforeReturn &&
      (rect.from.is_array() ||
       softgpu::side_of(*context, rect.from.address) == softgpu::PointerSide::kDevice)) {
    access->wait_at_end = true;
  }
  return softgpu::copy_rect(*context, rect, stream, softgpu::Wait::kNo, reads);
}

}  // namespace vgpu::calls
