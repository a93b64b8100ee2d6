// Packing rows into slabs and out of them.
// SPDX-License-Identifier: Apache-2.0
#include "shim/staging_rect.h"

#include <algorithm>
#include <cstring>
#include <mutex>

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

bool send(Session& session, Context* context, const RectEnd& to, const RectSide& from,
          const Part& part, const StreamRef& stream) {
  auto args = staged_args<wire::RectToDeviceArgs>(to, part, stream);
  if (args.bytes <= protocol::kBlobInlineBytesMax) {
    std::byte packed[protocol::kBlobInlineBytesMax];
    pack(packed, from, part);
    return session.post(context, Op::kRectToDevice, args, {packed, args.bytes}, &stream) != 0;
  }
  protocol::GuestChannel& channel = session.channel();
  const protocol::Staging::Piece piece = channel.allocate_up(args.bytes);
  if (!piece.ok()) return false;
  pack(channel.up_slab().data() + piece.offset, from, part);
  args.slab_offset = piece.offset;
  session.pace(stream);
  std::lock_guard lock(channel.lock());
  const uint64_t number =
      session.post_locked(context, Op::kRectToDevice, args, {}, protocol::kNoReply, &stream);
  channel.bind_up(piece, number);
  return number != 0;
}

// Parts of one box from the device that are on their way.
class Download {
 public:
  Download(Session& session, Context* context, const RectEnd& from, const RectSide& to,
           const StreamRef& stream)
      : session_(session), context_(context), from_(from), to_(to), stream_(stream) {}

  // Asks for one more part; waits for the oldest when all places are taken. False when the session
  // is over.
  bool start(const Part& part) {
    while (count_ == kFlights || !try_start(part)) {
      if (count_ == 0) return false;
      finish_oldest();
    }
    return true;
  }

  // Waits for all parts. The first error of any of them.
  CUresult finish() {
    while (count_ > 0) finish_oldest();
    return result_;
  }

 private:
  struct Flight {
    uint32_t slot = protocol::kNoReply;
    protocol::Staging::Piece piece;
    Part part;
  };
  static constexpr uint32_t kFlights = 4;

  bool try_start(const Part& part) {
    protocol::GuestChannel& channel = session_.channel();
    Flight flight;
    flight.part = part;
    flight.piece = channel.allocate_down(part.bytes(), count_ == 0);
    if (!flight.piece.ok()) return false;
    flight.slot = channel.replies().acquire();
    if (flight.slot == protocol::kNoReply) {
      channel.release_down(flight.piece);
      return false;
    }
    auto args = staged_args<wire::RectFromDeviceArgs>(from_, part, stream_);
    args.slab_offset = flight.piece.offset;
    session_.pace(stream_);
    std::lock_guard lock(channel.lock());
    if (session_.post_locked(context_, Op::kRectFromDevice, args, {}, flight.slot, &stream_) == 0) {
      channel.replies().release(flight.slot);
      channel.release_down(flight.piece);
      return false;
    }
    flights_[(first_ + count_++) % kFlights] = flight;
    return true;
  }

  void finish_oldest() {
    const Flight flight = flights_[first_];
    first_ = (first_ + 1) % kFlights;
    --count_;
    protocol::Reply reply;
    const CUresult result = session_.finish(flight.slot, &reply);
    if (result == CUDA_SUCCESS)
      unpack(to_, session_.channel().down_slab().data() + flight.piece.offset, flight.part);
    else if (result_ == CUDA_SUCCESS)
      result_ = result;
    session_.channel().release_down(flight.piece);
  }

  Session& session_;
  Context* context_;
  const RectEnd& from_;
  const RectSide& to_;
  const StreamRef& stream_;
  Flight flights_[kFlights];
  uint32_t first_ = 0, count_ = 0;
  CUresult result_ = CUDA_SUCCESS;
};

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
  session.stats().bytes_to_device += rect.bytes();
  const bool sent = each_piece(
      rect, piece_bytes(session.channel().up_slab().size()),
      [&](uint64_t x, uint64_t y, uint64_t z, uint64_t width, uint64_t height, uint64_t depth) {
        return send(session, context, to, rect.from, {x, y, z, width, height, depth}, stream);
      });
  return sent ? CUDA_SUCCESS : session.lost();
}

CUresult stage_rect_from_device(Session& session, Context* context, const RectEnd& from,
                                const RectCopy& rect, const StreamRef& stream) {
  session.stats().bytes_from_device += rect.bytes();
  Download download(session, context, from, rect.to, stream);
  const bool asked = each_piece(
      rect, piece_bytes(session.channel().down_slab().size()),
      [&](uint64_t x, uint64_t y, uint64_t z, uint64_t width, uint64_t height, uint64_t depth) {
        return download.start({x, y, z, width, height, depth});
      });
  const CUresult result = download.finish();
  return asked || result != CUDA_SUCCESS ? result : session.lost();
}

}  // namespace vgpu::shim
