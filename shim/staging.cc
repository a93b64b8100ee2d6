// Moving bytes through the channel's slabs.
// SPDX-License-Identifier: Apache-2.0
#include "shim/staging.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/stream_copy.h"

namespace vgpu::shim {
namespace {

// What goes through a slab at a time: guest and worker copy different pieces at the same time, so a
// copy is cut in four, as far as pieces are worth their records and stay in the caches.
uint64_t piece_bytes(uint64_t slab_bytes, uint64_t bytes) {
  constexpr uint64_t kPieceBytesMin = uint64_t{32} << 10, kPieceBytesMax = uint64_t{256} << 10;
  const uint64_t quarter = (bytes / 4 + protocol::kPageBytes - 1) & ~(protocol::kPageBytes - 1);
  return std::min(std::clamp(quarter, kPieceBytesMin, kPieceBytesMax), slab_bytes / 4);
}

// One piece through the up-slab for work in `stream`, in a record that `write` completes and
// writes. Others may write records while the piece is filled.
template <typename Write>
bool send_piece(Session& session, uint64_t stream, const std::byte* from, uint64_t bytes,
                Write&& write) {
  protocol::GuestChannel& channel = session.channel();
  const protocol::Staging::Piece piece = channel.allocate_up(bytes);
  if (!piece.ok()) return false;
  stream_copy(channel.up_slab().data() + piece.offset, from, bytes);
  std::lock_guard lock(channel.lock());
  const uint64_t number = session.still_there(stream) ? write(piece.offset) : 0;
  channel.bind_up(piece, number);
  return number != 0;
}

// Pieces of one copy from the device that are on their way.
struct Flight {
  uint32_t slot = protocol::kNoReply;
  protocol::Staging::Piece piece;
  uint64_t offset = 0, bytes = 0;
};

class Download {
 public:
  Download(Session& session, Context* context, std::byte* to, uint64_t from, uint64_t bytes,
           const StreamRef& stream)
      : session_(session),
        context_(context),
        to_(to),
        from_(from),
        stream_(stream),
        streams_(bytes >= kStreamBytesMin) {}

  // Asks for one more piece. False when there is no room for it now (only if others are on their
  // way) or at all.
  bool start(uint64_t offset, uint64_t bytes) {
    Flight flight;
    flight.offset = offset;
    flight.bytes = bytes;
    flight.piece = session_.channel().allocate_down(bytes, count_ == 0);
    if (!flight.piece.ok()) return false;
    flight.slot = session_.channel().replies().acquire();
    if (flight.slot == protocol::kNoReply) {
      session_.channel().release_down(flight.piece);
      return false;
    }
    wire::CopyFromDeviceArgs args;
    args.source = from_ + offset;
    args.bytes = bytes;
    args.stream = stream_.id;
    args.slab_offset = flight.piece.offset;
    session_.pace(stream_);
    std::lock_guard lock(session_.channel().lock());
    if (session_.post_locked(context_, Op::kCopyFromDevice, args, {}, flight.slot, &stream_) == 0) {
      session_.channel().replies().release(flight.slot);
      session_.channel().release_down(flight.piece);
      return false;
    }
    flights_[(first_ + count_++) % kFlights] = flight;
    return true;
  }

  // Waits for the oldest piece and copies it out.
  CUresult finish() {
    Flight& flight = flights_[first_];
    first_ = (first_ + 1) % kFlights;
    --count_;
    protocol::Reply reply;
    const CUresult result = session_.finish(flight.slot, &reply);
    if (result == CUDA_SUCCESS) {
      take(to_ + flight.offset, session_.channel().down_slab().data() + flight.piece.offset,
           flight.bytes);
    }
    session_.channel().release_down(flight.piece);
    return result;
  }

  uint32_t count() const { return count_; }
  static constexpr uint32_t kFlights = 4;

 private:
  // More than the caches hold goes past them.
  static constexpr uint64_t kStreamBytesMin = uint64_t{16} << 20;
  void take(std::byte* to, const std::byte* from, uint64_t bytes) const {
    if (streams_) {
      stream_copy(to, from, bytes);
    } else {
      line_copy(to, from, bytes);
    }
  }

  Session& session_;
  Context* context_;
  std::byte* to_;
  uint64_t from_;
  const StreamRef& stream_;
  const bool streams_;
  Flight flights_[kFlights];
  uint32_t first_ = 0, count_ = 0;
};

}  // namespace

CUresult stage_to_device(Session& session, Context* context, uint64_t to, const void* from,
                         uint64_t bytes, const StreamRef& stream) {
  const auto* source = static_cast<const std::byte*>(from);
  wire::CopyToDeviceArgs args;
  args.stream = stream.id;
  session.stats().bytes_to_device += bytes;
  if (bytes <= protocol::kBlobInlineBytesMax) {
    args.destination = to;
    args.bytes = bytes;
    return session.post(context, Op::kCopyToDevice, args, {source, bytes}, &stream) != 0
               ? CUDA_SUCCESS
               : session.lost();
  }
  const uint64_t step = piece_bytes(session.channel().up_slab().size(), bytes);
  for (uint64_t done = 0; done < bytes; done += step) {
    args.destination = to + done;
    args.bytes = std::min(step, bytes - done);
    session.pace(stream);
    const bool sent =
        send_piece(session, stream.id, source + done, args.bytes, [&](uint64_t offset) {
          args.slab_offset = offset;
          return session.post_locked(context, Op::kCopyToDevice, args, {}, protocol::kNoReply,
                                     &stream);
        });
    if (!sent) return session.lost();
  }
  return CUDA_SUCCESS;
}

CUresult stage_from_device(Session& session, Context* context, void* to, uint64_t from,
                           uint64_t bytes, const StreamRef& stream) {
  session.stats().bytes_from_device += bytes;
  Download download(session, context, static_cast<std::byte*>(to), from, bytes, stream);
  const uint64_t step = piece_bytes(session.channel().down_slab().size(), bytes);
  CUresult result = CUDA_SUCCESS;
  uint64_t asked = 0;
  while (asked < bytes || download.count() > 0) {
    if (asked < bytes && result == CUDA_SUCCESS && download.count() < Download::kFlights &&
        download.start(asked, std::min(step, bytes - asked))) {
      asked += std::min(step, bytes - asked);
      continue;
    }
    if (download.count() == 0) return result != CUDA_SUCCESS ? result : session.lost();
    if (const CUresult piece = download.finish(); result == CUDA_SUCCESS) result = piece;
  }
  return result;
}

CUresult stage_image(Session& session, Context* context, uint64_t upload, const void* image,
                     uint64_t bytes) {
  const auto* source = static_cast<const std::byte*>(image);
  const uint64_t step = piece_bytes(session.channel().up_slab().size(), bytes);
  wire::ImageChunkArgs args;
  args.upload = upload;
  args.total = bytes;
  for (uint64_t done = 0; done < bytes; done += step) {
    args.offset = done;
    args.bytes = std::min(step, bytes - done);
    if (args.bytes <= protocol::kBlobInlineBytesMax) {
      if (session.post(context, Op::kImageChunk, args, {source + done, args.bytes}) == 0)
        return session.lost();
      continue;
    }
    const bool sent =
        send_piece(session, kLegacyStreamId, source + done, args.bytes, [&](uint64_t offset) {
          args.slab_offset = offset;
          return session.post_locked(context, Op::kImageChunk, args, {}, protocol::kNoReply,
                                     nullptr);
        });
    if (!sent) return session.lost();
  }
  return CUDA_SUCCESS;
}

}  // namespace vgpu::shim
