// One piece of a copy through a slab, in either direction: for linear copies, boxes and images.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_STAGING_PIECE_H_
#define VGPU_SHIM_STAGING_PIECE_H_

#include <mutex>
#include <span>
#include <type_traits>

#include "base/stream_copy.h"
#include "shim/process.h"

namespace vgpu::shim {

// What fills a piece with bytes that lie in one place, which may go to the worker from there.
struct FillFrom {
  std::span<const std::byte> source;
  void operator()(std::byte* slab) const { stream_copy(slab, source.data(), source.size()); }
};

// kLost, kStuck: no record was written. kStuck: the slab is held by work that does not move on, and
// the bytes should go behind records, which wait for nobody but their own stream.
enum class Sent : uint8_t { kYes, kLost, kStuck };

// `fill` puts `bytes` bytes into the up-slab; `write` completes and writes the record that reads
// them, under the channel's lock. Others may write records while the piece is filled.
template <typename Fill, typename Write>
Sent send_piece(Session& session, uint64_t bytes, Fill&& fill, Write&& write) {
  protocol::GuestChannel& channel = session.channel();
  bool stuck = false;
  const protocol::Staging::Piece piece = channel.allocate_up(bytes, &stuck);
  if (!piece.ok()) return stuck ? Sent::kStuck : Sent::kLost;
  std::byte* const slab = channel.up_slab().data() + piece.offset;
  if (protocol::Mover* mover = channel.mover(); mover == nullptr) [[likely]] {
    fill(slab);
  } else if constexpr (std::is_same_v<std::remove_cvref_t<Fill>, FillFrom>) {
    mover->stage(piece.offset, fill.source);
  } else {
    fill(slab);
    mover->stage(piece.offset, {slab, bytes});
  }
  std::lock_guard lock(channel.lock());
  const uint64_t number = write(piece.offset);
  channel.bind_up(piece, number);
  return number != 0 ? Sent::kYes : Sent::kLost;
}

// Parts of one copy from the device that are on their way, the oldest first. `Take` is called with
// a part and its bytes in the down-slab.
template <typename Part, typename Take>
class Flights {
 public:
  Flights(Session& session, Context* context, const StreamRef& stream, Take take)
      : session_(session), context_(context), stream_(stream), take_(std::move(take)) {}

  // Asks for one more part by `op`; waits for the oldest when all places or the slab are taken.
  // False when the session is over, or an earlier part has failed.
  template <typename Args>
  bool add(Op op, const Args& args, const Part& part) {
    while (result_ == CUDA_SUCCESS && (count_ == limit_ || !start(op, args, part))) {
      if (count_ == 0) return false;
      finish_oldest();
    }
    return result_ == CUDA_SUCCESS;
  }

  // Waits for all parts. The first error of any of them.
  CUresult finish() {
    while (count_ > 0) finish_oldest();
    return result_;
  }

 private:
  // Locally four keep both sides busy; a network wants as much on its way as it delays.
  static constexpr uint32_t kFlightsMax = 16, kFlightsLocal = 4;
  struct Flight {
    uint32_t slot = protocol::kNoReply;
    protocol::Staging::Piece piece;
    Part part;
  };

  // False when there is no room for it now (only if others are on their way) or at all.
  template <typename Args>
  bool start(Op op, Args args, const Part& part) {
    protocol::GuestChannel& channel = session_.channel();
    Flight flight{protocol::kNoReply, channel.allocate_down(args.bytes, count_ == 0), part};
    if (!flight.piece.ok()) return false;
    flight.slot = channel.replies().acquire();
    args.slab_offset = flight.piece.offset;
    session_.pace(stream_);
    if (flight.slot != protocol::kNoReply) {
      std::lock_guard lock(channel.lock());
      if (session_.post_locked(context_, op, args, {}, flight.slot, &stream_) != 0) {
        flights_[(first_ + count_++) % kFlightsMax] = flight;
        return true;
      }
      channel.replies().release(flight.slot);
    }
    channel.release_down(flight.piece);
    return false;
  }

  void finish_oldest() {
    const Flight flight = flights_[first_];
    first_ = (first_ + 1) % kFlightsMax;
    --count_;
    protocol::Reply reply;
    const CUresult result = session_.finish(flight.slot, &reply);
    if (result == CUDA_SUCCESS)
      take_(flight.part, session_.channel().down_slab().data() + flight.piece.offset);
    else if (result_ == CUDA_SUCCESS)
      result_ = result;
    session_.channel().release_down(flight.piece);
  }

  Session& session_;
  Context* context_;
  const StreamRef& stream_;
  Take take_;
  Flight flights_[kFlightsMax];
  const uint32_t limit_ = session_.channel().mover() != nullptr ? kFlightsMax : kFlightsLocal;
  uint32_t first_ = 0, count_ = 0;
  CUresult result_ = CUDA_SUCCESS;
};

template <typename Part, typename Take>
Flights<Part, Take> flights_of(Session& session, Context* context, const StreamRef& stream,
                               Take take) {
  return Flights<Part, Take>(session, context, stream, std::move(take));
}

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_STAGING_PIECE_H_
