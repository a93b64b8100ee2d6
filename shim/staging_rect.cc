// Packing rows into slabs and out of them.
// SPDX-License-Identifier: Apache-2.0
#include "shim/staging_rect.h"

#include <algorithm>
#include <cstring>

#include "shim/staging_piece.h"

namespace vgpu::shim {
namespace {

// A part of the box: where it begins and how large it is.
struct Part {
  uint64_t x = 0, y = 0, z = 0, width = 0, height = 0, depth = 0;
  uint64_t bytes() const { return width * height * depth; }
};

// A quarter of the slab at most, so that filling and copying overlap.
uint64_t piece_bytes(uint64_t slab_bytes) {
  constexpr uint64_t kPieceBytesMax = uint64_t{1} << 20;
  return std::min(kPieceBytesMax, slab_bytes / 4);
}

void pack(std::byte* to, const RectSide& from, const Part& part) {
  for (uint64_t z = 0; z < part.depth; ++z) {
    for (uint64_t y = 0; y < part.height; ++y, to += part.width) {
      const uint64_t at = from.address + (part.z + z) * from.slice + (part.y + y) * from.pitch;
      std::memcpy(to, reinterpret_cast<const std::byte*>(at + part.x), part.width);
    }
  }
}

void unpack(const RectSide& to, const std::byte* from, const Part& part) {
  for (uint64_t z = 0; z < part.depth; ++z) {
    for (uint64_t y = 0; y < part.height; ++y, from += part.width) {
      const uint64_t at = to.address + (part.z + z) * to.slice + (part.y + y) * to.pitch;
      std::memcpy(reinterpret_cast<std::byte*>(at + part.x), from, part.width);
    }
  }
}

template <typename Args>
Args staged_args(const RectEnd& end, const Part& part, const StreamRef& stream) {
  const RectEnd at = end.at(part.x, part.y, part.z);
  Args args;
  args.memory = at.memory;
  args.pitch = at.pitch;
  args.rows = at.rows;
  args.x = at.x;
  args.y = at.y;
  args.z = at.z;
  args.width = part.width;
  args.height = part.height;
  args.depth = part.depth;
  args.bytes = part.bytes();
  args.stream = stream.id;
  args.kind = at.kind;
  if (part.height == 1 && part.depth == 1) args.pitch = args.rows = 0;
  return args;
}

// Behind its record.
bool send_inline(Session& session, Context* context, const RectEnd& to, const RectSide& from,
                 const Part& part, const StreamRef& stream) {
  const auto args = staged_args<wire::RectToDeviceArgs>(to, part, stream);
  std::byte packed[protocol::kBlobInlineBytesMax];
  pack(packed, from, part);
  return session.post(context, Op::kRectToDevice, args, {packed, args.bytes}, &stream) != 0;
}

bool send(Session& session, Context* context, const RectEnd& to, const RectSide& from,
          const Part& part, const StreamRef& stream) {
  auto args = staged_args<wire::RectToDeviceArgs>(to, part, stream);
  if (args.bytes <= protocol::kBlobInlineBytesMax)
    return send_inline(session, context, to, from, part, stream);
  session.pace(stream);
  const Sent sent = send_piece(
      session, args.bytes, [&](std::byte* slab) { pack(slab, from, part); },
      [&](uint64_t offset) {
        args.slab_offset = offset;
        return session.post_locked(context, Op::kRectToDevice, args, {}, protocol::kNoReply,
                                   &stream);
      });
  if (sent != Sent::kStuck) return sent == Sent::kYes;
  RectCopy box;
  box.width = part.width;
  box.height = part.height;
  box.depth = part.depth;
  return each_piece(
      box, protocol::kBlobInlineBytesMax,
      [&](uint64_t x, uint64_t y, uint64_t z, uint64_t width, uint64_t height, uint64_t depth) {
        return send_inline(session, context, to, from,
                           {part.x + x, part.y + y, part.z + z, width, height, depth}, stream);
      });
}

}  // namespace

RectEnd RectEnd::at(uint64_t dx, uint64_t dy, uint64_t dz) const {
  RectEnd part = *this;
  if (kind == kArray) {
    part.x += dx;
    part.y += dy;
    part.z += dz;
  } else {
    part.memory += dz * pitch * rows + dy * pitch + dx;
  }
  return part;
}

CUresult stage_rect_to_device(Session& session, Context* context, const RectEnd& to,
                              const RectCopy& rect, const StreamRef& stream) {
  session.stats().add(&Stats::bytes_to_device, rect.bytes());
  const bool sent = each_piece(
      rect, piece_bytes(session.channel().up_slab().size()),
      [&](uint64_t x, uint64_t y, uint64_t z, uint64_t width, uint64_t height, uint64_t depth) {
        return send(session, context, to, rect.from, {x, y, z, width, height, depth}, stream);
      });
  return sent ? CUDA_SUCCESS : session.lost();
}

CUresult stage_rect_from_device(Session& session, Context* context, const RectEnd& from,
                                const RectCopy& rect, const StreamRef& stream) {
  session.stats().add(&Stats::bytes_from_device, rect.bytes());
  const auto take = [&](const Part& part, const std::byte* slab) { unpack(rect.to, slab, part); };
  auto flights = flights_of<Part>(session, context, stream, take);
  const bool asked = each_piece(
      rect, piece_bytes(session.channel().down_slab().size()),
      [&](uint64_t x, uint64_t y, uint64_t z, uint64_t width, uint64_t height, uint64_t depth) {
        const Part part{x, y, z, width, height, depth};
        return flights.add(Op::kRectFromDevice,
                           staged_args<wire::RectFromDeviceArgs>(from, part, stream), part);
      });
  const CUresult result = flights.finish();
  return asked || result != CUDA_SUCCESS ? result : session.lost();
}

}  // namespace vgpu::shim
