// Two- and three-dimensional copies and fills, and copies to and from arrays.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>

#include "api/calls/hooks.h"
#include "driver_functions.h"
#include "shim/capture_hooks.h"
#include "shim/copy.h"
#include "shim/rect_place.h"
#include "shim/staging_rect.h"

namespace vgpu::driver {

using shim::Copy;
using shim::must_wait;
using shim::Place;
using shim::RectEnd;
using shim::synchronize_stream;
using shim::Timing;
using shim::wait_if;

namespace {

CUresult post_copy(Copy& copy, const RectEnd& to, const RectEnd& from, const RectCopy& rect) {
  wire::RectCopyArgs args = shim::copy_args(to, from, rect);
  args.stream = copy.stream.id;
  const uint64_t number = copy.session->post(copy.context, Op::kRectCopy, args, {}, &copy.stream);
  return number != 0 ? CUDA_SUCCESS : copy.session->lost();
}

// Between two places in host memory, in the stream's order.
CUresult on_the_host(Copy& copy, const RectCopy& rect) {
  const CUresult result = synchronize_stream(*copy.session, copy.context, copy.stream);
  if (result != CUDA_SUCCESS) return result;
  for (uint64_t z = 0; z < rect.depth; ++z) {
    for (uint64_t y = 0; y < rect.height; ++y) {
      const auto at = [&](const RectSide& side) {
        return reinterpret_cast<void*>(side.address + z * side.slice + y * side.pitch);
      };
      std::memmove(at(rect.to), at(rect.from), rect.width);
    }
  }
  return CUDA_SUCCESS;
}

CUresult locate(Copy& copy, const RectCopy& rect, Place* to, Place* from) {
  const shim::PlaceScope scope{copy.current, copy.context};
  if (CUresult r = shim::locate(*copy.session, scope, rect, rect.to, to); r != CUDA_SUCCESS)
    return r;
  if (CUresult r = shim::locate(*copy.session, scope, rect, rect.from, from); r != CUDA_SUCCESS)
    return r;
  const bool differ = to->kind == Place::kArray && from->kind == Place::kArray &&
                      to->texel_bytes != from->texel_bytes;
  return differ ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult between(Copy& copy, const RectCopy& rect, const Place& to, const Place& from) {
  if (!to.on_device() && !from.on_device()) return on_the_host(copy, rect);
  if (to.worker_reaches() && from.worker_reaches()) {
    const bool host = to.kind == Place::kInPlace || from.kind == Place::kInPlace;
    return wait_if(copy, host || must_wait(copy), post_copy(copy, to.end, from.end, rect));
  }
  if (to.on_device()) {
    if (from.end.kind == RectEnd::kHost) {  // registered
      if (CUresult r = wait_for_writers(copy); r != CUDA_SUCCESS) return r;
    }
    return wait_if(copy, must_wait(copy),
                   stage_rect_to_device(*copy.session, copy.context, to.end, rect, copy.stream));
  }
  const CUresult result =
      stage_rect_from_device(*copy.session, copy.context, from.end, rect, copy.stream);
  return copy.timing == Timing::kSynchronous ? copy.session->show_output(result) : result;
}

CUresult run(Copy& copy, const RectCopy& rect) {
  if (rect.empty()) return CUDA_SUCCESS;
  Place to, from;
  const CUresult r = locate(copy, rect, &to, &from);
  return r == CUDA_SUCCESS ? between(copy, rect, to, from) : r;
}

// As for linear copies (memcpy.cc).
CUresult run(Copy& copy, const RectCopy& rect, calls::SourceAccess* access) {
  Place to, from;
  if (CUresult r = locate(copy, rect, &to, &from); r != CUDA_SUCCESS) return r;
  const bool during = access->order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  if (access->order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && from.kind == Place::kHost &&
      !access->caught_up) {
    const CUresult r = synchronize_stream(*copy.session, copy.context, copy.stream);
    if (r != CUDA_SUCCESS) return r;
    access->caught_up = true;
  }
  if (during && to.on_device() && from.kind == Place::kInPlace)
    return stage_rect_to_device(*copy.session, copy.context, to.end, rect, copy.stream);
  if (during && from.on_device()) access->wait_at_end = true;
  return between(copy, rect, to, from);
}

std::optional<CUresult> captured(const Copy& copy, const CUDA_MEMCPY3D* box) {
  if (copy.timing == Timing::kSynchronous) return shim::refuse_waiting(*copy.context, copy.stream);
  if (box == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return graph::capture_copy(shim::key_of(*copy.context, copy.stream), *box);
}

std::optional<CUresult> captured(const Copy& copy, const CUDA_MEMCPY2D* rows) {
  const CUDA_MEMCPY3D box = rows == nullptr ? CUDA_MEMCPY3D{} : graph::box_of(*rows);
  return captured(copy, rows == nullptr ? nullptr : &box);
}

template <typename Descriptor>
CUresult described(const Descriptor* descriptor, CUstream stream, Timing timing) {
  Copy copy;
  if (CUresult r = begin(&copy, stream, timing); r != CUDA_SUCCESS) return r;
  if (graph::watching()) [[unlikely]] {
    if (const auto taken = captured(copy, descriptor)) return *taken;
  }
  RectCopy rect;
  if (CUresult r = to_rect(descriptor, shim::pitch_max(*copy.session, *copy.current), &rect);
      r != CUDA_SUCCESS)
    return r;
  return run(copy, rect);
}

CUresult row(const RectSide& to, const RectSide& from, size_t bytes, CUstream stream,
             Timing timing) {
  Copy copy;
  if (CUresult r = begin(&copy, stream, timing); r != CUDA_SUCCESS) return r;
  if (graph::watching()) [[unlikely]] {
    const CUDA_MEMCPY3D box = graph::box_of(to, from, bytes);
    if (const auto taken = captured(copy, &box)) return *taken;
  }
  for (const RectSide* side : {&to, &from}) {
    if (bytes != 0 && !side->is_array() && side->address == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  RectCopy rect;
  rect.to = to;
  rect.from = from;
  rect.width = bytes;
  return run(copy, rect);
}

RectSide host(const void* pointer, size_t bytes) {
  return memory_side(CU_MEMORYTYPE_HOST, reinterpret_cast<uint64_t>(pointer), bytes);
}

RectSide device(CUdeviceptr address, size_t bytes) {
  return memory_side(CU_MEMORYTYPE_DEVICE, address, bytes);
}

}  // namespace

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) {
  return described(copy, nullptr, Timing::kSynchronous);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) {
  return described(copy, nullptr, Timing::kSynchronous);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return described(copy, stream, Timing::kAsynchronous);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) {
  return described(copy, nullptr, Timing::kSynchronous);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return described(copy, stream, Timing::kAsynchronous);
}

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) {
  return row(array_side(to, offset), device(from, bytes), bytes, nullptr, Timing::kSynchronous);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) {
  return row(device(to, bytes), array_side(from, offset), bytes, nullptr, Timing::kSynchronous);
}

CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void* from, size_t bytes) {
  return row(array_side(to, offset), host(from, bytes), bytes, nullptr, Timing::kSynchronous);
}

CUresult cuMemcpyAtoH_v2(void* to, CUarray from, size_t offset, size_t bytes) {
  return row(host(to, bytes), array_side(from, offset), bytes, nullptr, Timing::kSynchronous);
}

CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                         size_t bytes) {
  return row(array_side(to, to_offset), array_side(from, from_offset), bytes, nullptr,
             Timing::kSynchronous);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void* from, size_t bytes,
                              CUstream stream) {
  return row(array_side(to, offset), host(from, bytes), bytes, stream, Timing::kAsynchronous);
}

CUresult cuMemcpyAtoHAsync_v2(void* to, CUarray from, size_t offset, size_t bytes,
                              CUstream stream) {
  return row(host(to, bytes), array_side(from, offset), bytes, stream, Timing::kAsynchronous);
}

}  // namespace vgpu::driver

namespace vgpu::calls {

CUresult copy_in_batch(const CUDA_MEMCPY3D& box, CUstream stream, SourceAccess* access) {
  shim::Copy copy;
  CUresult r = shim::begin(&copy, stream, shim::Timing::kAsynchronous);
  if (r != CUDA_SUCCESS) return r;
  RectCopy rect;
  r = to_rect(&box, shim::pitch_max(*copy.session, *copy.current), &rect);
  return r == CUDA_SUCCESS ? driver::run(copy, rect, access) : r;
}

}  // namespace vgpu::calls
