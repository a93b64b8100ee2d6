// Two- and three-dimensional copies and fills, and copies to and from arrays.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>

#include "api/default_stream.h"
#include "driver_functions.h"
#include "shim/device.h"
#include "shim/staging_rect.h"
#include "shim/stream_table.h"

namespace vgpu::driver {

using shim::Allocation;
using shim::Array;
using shim::Context;
using shim::enter;
using shim::find_any_stream;
using shim::HostBlock;
using shim::id_of;
using shim::RectEnd;
using shim::Session;
using shim::StreamRef;
using shim::synchronize_stream;

namespace {

enum class Timing : uint8_t { kSynchronous, kAsynchronous };

struct Copy {
  Session* session = nullptr;
  Context* current = nullptr;  // whose arrays the handles mean
  Context* context = nullptr;  // the stream's
  StreamRef stream;
  Timing timing = Timing::kSynchronous;
};

CUresult begin(Copy* copy, CUstream stream, Timing timing) {
  copy->timing = timing;
  if (CUresult r = enter(&copy->session, &copy->current); r != CUDA_SUCCESS) return r;
  copy->context = copy->current;
  return find_any_stream(*copy->session, stream == nullptr ? default_stream() : stream,
                         &copy->stream, &copy->context);
}

uint64_t pitch_max(const Copy& copy) {
  return static_cast<uint64_t>(
      shim::attribute(*copy.session->device(copy.current->device), CU_DEVICE_ATTRIBUTE_MAX_PITCH));
}

// What one end of a copy is.
struct Place {
  enum Kind : uint8_t { kDevice, kArray, kInPlace, kHost };
  Kind kind = kHost;
  RectEnd end;
  uint32_t texel_bytes = 0;  // of an array
  bool worker_reaches() const { return kind != kHost; }
  bool on_device() const { return kind == kDevice || kind == kArray; }
};

// Arrays of the current context. Work on them in a stream of another one is not served.
CUresult locate_array(Copy& copy, const RectCopy& rect, const RectSide& side, Place* place) {
  Array array;
  if (!copy.session->arrays().find(id_of(side.array), copy.current, &array))
    return CUDA_ERROR_INVALID_HANDLE;
  if (copy.context != copy.current) return CUDA_ERROR_NOT_SUPPORTED;
  place->kind = Place::kArray;
  place->end = {RectEnd::kArray, array.id, 0, 0, side.x, side.y, side.z};
  place->texel_bytes = array.shape.texel_bytes();
  return check_in_array(rect, side, array.shape);
}

CUresult locate(Copy& copy, const RectCopy& rect, const RectSide& side, Place* place) {
  if (side.is_array()) return locate_array(copy, rect, side, place);
  const uint64_t span = rect.span(side);
  const auto ends_inside = [&](uint64_t base, uint64_t bytes) {
    return span <= bytes - (side.address - base);
  };
  const uint64_t rows = side.pitch != 0 ? side.slice / side.pitch : 0;
  place->end = {RectEnd::kMemory, side.address, side.pitch, rows, 0, 0, 0};
  Allocation allocation;
  HostBlock block;
  if (copy.session->memory().find(side.address, &allocation)) {
    place->kind = Place::kDevice;
    return ends_inside(allocation.address, allocation.bytes) ? CUDA_SUCCESS
                                                             : CUDA_ERROR_INVALID_VALUE;
  }
  if (copy.session->host_memory().find(side.address, &block)) {
    place->kind = block.in_place ? Place::kInPlace : Place::kHost;
    place->end.kind = RectEnd::kHost;
    return ends_inside(block.address, block.bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  return side.type == CU_MEMORYTYPE_DEVICE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult post_copy(Copy& copy, const RectEnd& to, const RectEnd& from, const RectCopy& rect) {
  wire::RectCopyArgs args;
  args.to_memory = to.memory;
  args.to_pitch = to.pitch;
  args.to_rows = to.rows;
  args.to_x = to.x;
  args.to_y = to.y;
  args.to_z = to.z;
  args.to_kind = to.kind;
  args.from_memory = from.memory;
  args.from_pitch = from.pitch;
  args.from_rows = from.rows;
  args.from_x = from.x;
  args.from_y = from.y;
  args.from_z = from.z;
  args.from_kind = from.kind;
  args.width = rect.width;
  args.height = rect.height;
  args.depth = rect.depth;
  args.bytes = rect.bytes();
  args.stream = copy.stream.id;
  if (rect.height == 1 && rect.depth == 1)
    args.to_pitch = args.to_rows = args.from_pitch = args.from_rows = 0;
  const uint64_t number = copy.session->post(copy.context, Op::kRectCopy, args, {}, &copy.stream);
  return number != 0 ? CUDA_SUCCESS : copy.session->lost();
}

// A synchronous copy to the device is done when it returns, also for streams that do not order with
// it. Where there are none, order in the channel is enough, unless kernels print: then it shows
// what.
bool others_may_look(const Copy& copy) {
  return copy.session->output().prints() ||
         copy.context->unordered_streams.load(std::memory_order_relaxed) != 0 ||
         copy.session->contexts().active_count() > 1;
}

CUresult wait_if(Copy& copy, bool wait, CUresult result) {
  if (result != CUDA_SUCCESS || !wait || copy.timing == Timing::kAsynchronous) return result;
  return synchronize_stream(*copy.session, copy.context, copy.stream);
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

CUresult run(Copy& copy, const RectCopy& rect) {
  if (rect.empty()) return CUDA_SUCCESS;
  Place to, from;
  if (CUresult r = locate(copy, rect, rect.to, &to); r != CUDA_SUCCESS) return r;
  if (CUresult r = locate(copy, rect, rect.from, &from); r != CUDA_SUCCESS) return r;
  if (to.kind == Place::kArray && from.kind == Place::kArray &&
      to.texel_bytes != from.texel_bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!to.on_device() && !from.on_device()) return on_the_host(copy, rect);
  if (to.worker_reaches() && from.worker_reaches()) {
    const bool host = to.kind == Place::kInPlace || from.kind == Place::kInPlace;
    return wait_if(copy, host || others_may_look(copy), post_copy(copy, to.end, from.end, rect));
  }
  if (to.on_device()) {
    return wait_if(copy, others_may_look(copy),
                   stage_rect_to_device(*copy.session, copy.context, to.end, rect, copy.stream));
  }
  const CUresult result =
      stage_rect_from_device(*copy.session, copy.context, from.end, rect, copy.stream);
  return copy.timing == Timing::kSynchronous ? copy.session->show_output(result) : result;
}

template <typename Descriptor>
CUresult described(const Descriptor* descriptor, CUstream stream, Timing timing) {
  Copy copy;
  if (CUresult r = begin(&copy, stream, timing); r != CUDA_SUCCESS) return r;
  RectCopy rect;
  if (CUresult r = to_rect(descriptor, pitch_max(copy), &rect); r != CUDA_SUCCESS) return r;
  return run(copy, rect);
}

CUresult row(const RectSide& to, const RectSide& from, size_t bytes, CUstream stream,
             Timing timing) {
  Copy copy;
  if (CUresult r = begin(&copy, stream, timing); r != CUDA_SUCCESS) return r;
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
