// Boxes: staged through the slabs, or between two ends that the worker reaches. And fills of rows.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/geometry/peer.h"
#include "api/geometry/rect.h"
#include "server/array.h"
#include "server/foreign.h"
#include "server/rect.h"
#include "server/staged_copy.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

enum EndKind : uint32_t { kMemory = 1, kArray = 2, kHost = 3 };

struct Extent {
  uint64_t width, height, depth;
};

struct End {
  uint32_t kind;
  uint64_t memory, pitch, rows, x, y, z;
};

// Whether width * height * depth is `bytes`, which is not 0.
bool extent_is(const Extent& e, uint64_t bytes) {
  uint64_t rows = 0, product = 0;
  return bytes != 0 && !__builtin_mul_overflow(e.height, e.depth, &rows) &&
         !__builtin_mul_overflow(e.width, rows, &product) && product == bytes;
}

// Bytes of memory that a box spans; false when that is no number, or rows overlap.
bool span_of(const Extent& e, const End& end, uint64_t* span) {
  const uint64_t pitch = end.pitch != 0 ? end.pitch : e.width;
  const uint64_t rows = end.rows != 0 ? end.rows : e.height;
  uint64_t slice = 0, slices = 0, last_row = 0;
  return pitch >= e.width && rows >= e.height && !__builtin_mul_overflow(pitch, rows, &slice) &&
         !__builtin_mul_overflow(slice, e.depth - 1, &slices) &&
         !__builtin_mul_overflow(pitch, e.height - 1, &last_row) &&
         !__builtin_add_overflow(slices, last_row, span) &&
         !__builtin_add_overflow(*span, e.width, span);
}

struct Driven {  // one end as CUDA_MEMCPY3D has it
  CUmemorytype type = CU_MEMORYTYPE_DEVICE;
  uint64_t address = 0, pitch = 0, rows = 0, x = 0, y = 0, z = 0;
  CUarray array = nullptr;
  int device = -1;  // the guest's number; -1: it is on the host
};

// nullptr, or why the guest may not copy there.
const char* resolve(Session& session, const Context* context, const Extent& e, const End& end,
                    Driven* out) {
  if (end.kind == kArray) {
    const Array* array = session.arrays().arrays.find(end.memory);
    if (array == nullptr || array->context != context) return "unknown array";
    RectCopy box;
    box.width = e.width;
    box.height = e.height;
    box.depth = e.depth;
    RectSide side;
    side.x = end.x;
    side.y = end.y;
    side.z = end.z;
    if (check_in_array(box, side, array->shape) != CUDA_SUCCESS) return "box outside the array";
    out->type = CU_MEMORYTYPE_ARRAY;
    out->array = array->handle;
    out->device = static_cast<int>(context->device);
    out->x = end.x;
    out->y = end.y;
    out->z = end.z;
    return nullptr;
  }
  uint64_t span = 0;
  if (!span_of(e, end, &span)) return "box";
  if (end.kind == kMemory)
    out->device = session.memory().device_of(end.memory, span, context->device);
  const bool ours =
      end.kind == kHost ? session.host_memory().contains(end.memory, span) : out->device >= 0;
  if (!ours) return "not the guest's memory";
  out->type = end.kind == kHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  out->address = end.memory;
  out->pitch = end.pitch;
  out->rows = end.rows;
  return nullptr;
}

// The end of a staged copy that is not in the channel.
template <typename Args>
const char* resolve_staged(Session& session, const Stream& stream, const Extent& extent,
                           const Args& args, Driven* out) {
  if (!extent_is(extent, args.bytes)) return "extent";
  const End end{args.kind, args.memory, args.pitch, args.rows, args.x, args.y, args.z};
  return end.kind == kHost ? "kind" : resolve(session, stream.context, extent, end, out);
}

Driven packed(const void* bytes, const Extent& e) {
  Driven d;
  d.type = CU_MEMORYTYPE_HOST;
  d.address = reinterpret_cast<uint64_t>(bytes);
  d.pitch = e.width;
  d.rows = e.height;
  return d;
}

CUDA_MEMCPY3D described(const Driven& to, const Driven& from, const Extent& e) {
  CUDA_MEMCPY3D copy = {};
  copy.dstMemoryType = to.type;
  copy.dstHost = reinterpret_cast<void*>(to.address);
  copy.dstDevice = to.address;
  copy.dstArray = to.array;
  copy.dstPitch = to.pitch;
  copy.dstHeight = to.rows;
  copy.dstXInBytes = to.x;
  copy.dstY = to.y;
  copy.dstZ = to.z;
  copy.srcMemoryType = from.type;
  copy.srcHost = reinterpret_cast<const void*>(from.address);
  copy.srcDevice = from.address;
  copy.srcArray = from.array;
  copy.srcPitch = from.pitch;
  copy.srcHeight = from.rows;
  copy.srcXInBytes = from.x;
  copy.srcY = from.y;
  copy.srcZ = from.z;
  copy.WidthInBytes = e.width;
  copy.Height = e.height;
  copy.Depth = e.depth;
  return copy;
}

// A box between two devices.
bool copy_between(Session& session, Stream* stream, const Record& record, const CUDA_MEMCPY3D& copy,
                  const EndDevices& devices, const DeviceWork& work) {
  const Device* to = session.find_device(static_cast<uint32_t>(devices.to));
  const Device* from = session.find_device(static_cast<uint32_t>(devices.from));
  if (session.driver().cuMemcpy3DPeerAsync == nullptr || to == nullptr || from == nullptr)
    return session.refuse(record, "cuMemcpy3DPeerAsync");
  return session.submit(
      stream, record,
      [copy, to, from](const DriverTable& driver, CUstream handle, const std::byte*) {
        return between(*to, *from, [&](CUcontext there, CUcontext here) {
          if (there == nullptr) return driver.cuMemcpy3DAsync_v2(&copy, handle);
          const CUDA_MEMCPY3D_PEER peer = with_contexts(copy, there, here);
          return driver.cuMemcpy3DPeerAsync(&peer, handle);
        });
      },
      {.work = work});
}

CUresult run(const DriverTable& driver, CUstream stream, const Driven& to, const Driven& from,
             const Extent& e) {
  const CUDA_MEMCPY3D copy = described(to, from, e);
  return driver.cuMemcpy3DAsync_v2(&copy, stream);
}

}  // namespace

const char* resolve_copy(Session& session, const Context* context, const wire::RectCopyArgs& args,
                         CUDA_MEMCPY3D* copy, EndDevices* devices) {
  const Extent extent{args.width, args.height, args.depth};
  if (!extent_is(extent, args.bytes)) return "extent";
  Driven to, from;
  const End to_end{args.to_kind, args.to_memory, args.to_pitch, args.to_rows,
                   args.to_x,    args.to_y,      args.to_z};
  const End from_end{args.from_kind, args.from_memory, args.from_pitch, args.from_rows,
                     args.from_x,    args.from_y,      args.from_z};
  const char* why = resolve(session, context, extent, to_end, &to);
  if (why == nullptr) why = resolve(session, context, extent, from_end, &from);
  if (why == nullptr) *copy = described(to, from, extent);
  if (devices != nullptr) *devices = {to.device, from.device};
  return why;
}

const char* check_fill(Session& session, const wire::RectFillArgs& args) {
  if (args.width != 1 && args.width != 2 && args.width != 4) return "element width";
  if (args.count > ~uint64_t{0} / args.width) return "extent";
  const Extent extent{args.count * args.width, args.height, 1};
  const End end{kMemory, args.destination, args.pitch, 0, 0, 0, 0};
  uint64_t span = 0;
  if (!extent_is(extent, args.bytes) || !span_of(extent, end, &span)) return "extent";
  return session.memory().owns(args.destination, span) ||
                 session.host_memory().contains(args.destination, span)
             ? nullptr
             : "not the guest's memory";
}

namespace {

CUresult fill_rows(const DriverTable& driver, const wire::RectFillArgs& args, CUstream stream) {
  switch (args.width) {
    case 1:
      return driver.cuMemsetD2D8Async(args.destination, args.pitch,
                                      static_cast<unsigned char>(args.value), args.count,
                                      args.height, stream);
    case 2:
      return driver.cuMemsetD2D16Async(args.destination, args.pitch,
                                       static_cast<unsigned short>(args.value), args.count,
                                       args.height, stream);
    default:
      return driver.cuMemsetD2D32Async(args.destination, args.pitch, args.value, args.count,
                                       args.height, stream);
  }
}

// Where one end is no device's memory.
scheduler::Engine engine_of(const EndDevices& devices) {
  if (devices.from < 0) return scheduler::Engine::kToDevice;
  return devices.to < 0 ? scheduler::Engine::kFromDevice : scheduler::Engine::kCompute;
}

}  // namespace

bool handle_RectToDevice(Session& session, const wire::RectToDeviceArgs& args,
                         const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  const Extent extent{args.width, args.height, args.depth};
  Driven to;
  if (const char* why = resolve_staged(session, *stream, extent, args, &to); why != nullptr)
    return session.malformed(record, why);
  return copy_up(session, stream, args, record,
                 [to, extent, place = WorkPlace(session, *stream, to.device)](
                     const DriverTable& driver, CUstream handle, const std::byte* from) {
                   return place.run(driver, handle, [&](CUstream on) {
                     return run(driver, on, to, packed(from, extent), extent);
                   });
                 });
}

bool handle_RectFromDevice(Session& session, const wire::RectFromDeviceArgs& args,
                           const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  const Extent extent{args.width, args.height, args.depth};
  Driven from;
  if (const char* why = resolve_staged(session, *stream, extent, args, &from); why != nullptr)
    return session.malformed(record, why);
  return copy_down(session, stream, args, record,
                   [from, extent, place = WorkPlace(session, *stream, from.device)](
                       const DriverTable& driver, CUstream handle, std::byte* to) {
                     return place.run(driver, handle, [&](CUstream on) {
                       return run(driver, on, packed(to, extent), from, extent);
                     });
                   });
}

bool handle_RectCopy(Session& session, const wire::RectCopyArgs& args, const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  CUDA_MEMCPY3D copy;
  EndDevices devices;
  const char* why = resolve_copy(session, stream->context, args, &copy, &devices);
  if (why != nullptr) return session.malformed(record, why);
  if (devices.from < 0) session.figures().copied_to(args.bytes);
  if (devices.to < 0) session.figures().copied_from(args.bytes);
  const DeviceWork work = copy_work(engine_of(devices), args.bytes);
  if (devices.to >= 0 && devices.from >= 0 && devices.to != devices.from) [[unlikely]]
    return copy_between(session, stream, record, copy, devices, work);
  const WorkPlace place(session, *stream, std::max(devices.to, devices.from));
  return session.submit(
      stream, record,
      [copy, place](const DriverTable& driver, CUstream handle, const std::byte*) {
        return place.run(driver, handle,
                         [&](CUstream on) { return driver.cuMemcpy3DAsync_v2(&copy, on); });
      },
      {.work = work});
}

bool handle_RectFill(Session& session, const wire::RectFillArgs& args, const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (const char* why = check_fill(session, args); why != nullptr)
    return session.malformed(record, why);
  const WorkPlace place(
      session, *stream,
      session.memory().device_of(args.destination, args.count, stream->context->device));
  return session.submit(
      stream, record,
      [args, place](const DriverTable& driver, CUstream handle, const std::byte*) {
        return place.run(driver, handle, [&](CUstream on) { return fill_rows(driver, args, on); });
      },
      {.work = copy_work(scheduler::Engine::kCompute, args.bytes)});
}

}  // namespace vgpu::server
