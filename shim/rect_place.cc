// Looking up the memory and arrays of boxes.
// SPDX-License-Identifier: Apache-2.0
#include "shim/rect_place.h"

#include "shim/device.h"

namespace vgpu::shim {

namespace {

CUresult locate_array(Session& session, const PlaceScope& scope, const RectCopy& rect,
                      const RectSide& side, Place* place) {
  Array array;
  if (!session.arrays().find(id_of(side.array), scope.current, &array))
    return CUDA_ERROR_INVALID_HANDLE;
  if (scope.stream != scope.current) return CUDA_ERROR_NOT_SUPPORTED;
  place->kind = Place::kArray;
  place->end = {RectEnd::kArray, array.id, 0, 0, side.x, side.y, side.z};
  place->texel_bytes = array.shape.texel_bytes();
  return check_in_array(rect, side, array.shape);
}

}  // namespace

CUresult locate(Session& session, const PlaceScope& scope, const RectCopy& rect,
                const RectSide& side, Place* place) {
  if (side.is_array()) return locate_array(session, scope, rect, side, place);
  const uint64_t span = rect.span(side);
  const auto ends_inside = [&](uint64_t base, uint64_t bytes) {
    return span <= bytes - (side.address - base);
  };
  const uint64_t rows = side.pitch != 0 ? side.slice / side.pitch : 0;
  place->end = {RectEnd::kMemory, side.address, side.pitch, rows, 0, 0, 0};
  Allocation allocation;
  HostBlock block;
  if (session.memory().find(side.address, &allocation)) {
    place->kind = Place::kDevice;
    return ends_inside(allocation.address, allocation.bytes) ? CUDA_SUCCESS
                                                             : CUDA_ERROR_INVALID_VALUE;
  }
  if (session.host_memory().find(side.address, &block)) {
    place->kind = block.in_place ? Place::kInPlace : Place::kHost;
    place->end.kind = RectEnd::kHost;
    return ends_inside(block.address, block.bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  const bool closed = session.virtual_memory().inside(side.address);
  return closed || side.type == CU_MEMORYTYPE_DEVICE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

wire::RectCopyArgs copy_args(const RectEnd& to, const RectEnd& from, const RectCopy& rect) {
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
  if (rect.height == 1 && rect.depth == 1)
    args.to_pitch = args.to_rows = args.from_pitch = args.from_rows = 0;
  return args;
}

uint64_t pitch_max(const Session& session, const Context& context) {
  return static_cast<uint64_t>(
      attribute(*session.device(context.device), CU_DEVICE_ATTRIBUTE_MAX_PITCH));
}

}  // namespace vgpu::shim
