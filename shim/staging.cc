// Moving bytes through the channel's slabs.
// SPDX-License-Identifier: Apache-2.0
#include "shim/staging.h"

#include <algorithm>

#include "base/stream_copy.h"
#include "shim/staging_piece.h"

namespace vgpu::shim {
namespace {

// What goes through a slab at a time: guest and worker copy different pieces at the same time, so a
// copy is cut in four, as far as pieces are worth their records and stay in the caches.
uint64_t piece_bytes(uint64_t slab_bytes, uint64_t bytes) {
  constexpr uint64_t kPieceBytesMin = uint64_t{32} << 10, kPieceBytesMax = uint64_t{256} << 10;
  const uint64_t quarter = (bytes / 4 + protocol::kPageBytes - 1) & ~(protocol::kPageBytes - 1);
  return std::min(std::clamp(quarter, kPieceBytesMin, kPieceBytesMax), slab_bytes / 4);
}

// Sends all of `source` by records of `op`, each with as much of it as `args` says: through the
// slab, or behind the records where it is little or the slab is stuck. `advance` is told how much
// the record before has taken. `stream`: null for what is of none.
template <typename Args, typename Advance>
CUresult send_all(Session& session, Context* context, Op op, Args* args,
                  std::span<const std::byte> source, const StreamRef* stream, Advance&& advance) {
  const uint64_t step = piece_bytes(session.channel().up_slab().size(), source.size());
  while (!source.empty()) {
    args->bytes = std::min<uint64_t>(step, source.size());
    Sent sent = Sent::kStuck;
    if (args->bytes > protocol::kBlobInlineBytesMax) {
      if (stream != nullptr) session.pace(*stream);
      sent = send_piece(
          session, args->bytes, FillFrom{source.first(args->bytes)}, [&](uint64_t offset) {
            args->slab_offset = offset;
            return session.post_locked(context, op, *args, {}, protocol::kNoReply, stream);
          });
    }
    if (sent == Sent::kStuck) {
      args->bytes = std::min<uint64_t>(args->bytes, protocol::kBlobInlineBytesMax);
      args->slab_offset = 0;
      if (session.post(context, op, *args, source.first(args->bytes), stream) != 0)
        sent = Sent::kYes;
    }
    if (sent != Sent::kYes) return session.lost();
    advance(args, args->bytes);
    source = source.subspan(args->bytes);
  }
  return CUDA_SUCCESS;
}

// A piece as it lies in the caller's memory.
struct Span {
  uint64_t offset = 0, bytes = 0;
};

}  // namespace

CUresult stage_to_device(Session& session, Context* context, uint64_t to, const void* from,
                         uint64_t bytes, const StreamRef& stream) {
  wire::CopyToDeviceArgs args;
  args.stream = stream.id;
  args.destination = to;
  session.stats().add(&Stats::bytes_to_device, bytes);
  return send_all(session, context, Op::kCopyToDevice, &args,
                  {static_cast<const std::byte*>(from), bytes}, &stream,
                  [](wire::CopyToDeviceArgs* each, uint64_t sent) { each->destination += sent; });
}

CUresult stage_from_device(Session& session, Context* context, void* to, uint64_t from,
                           uint64_t bytes, const StreamRef& stream) {
  constexpr uint64_t kStreamBytesMin = uint64_t{16} << 20;  // more than the caches hold
  session.stats().add(&Stats::bytes_from_device, bytes);
  auto* const target = static_cast<std::byte*>(to);
  const auto take = [&](const Span& part, const std::byte* slab) {
    if (bytes >= kStreamBytesMin)
      stream_copy(target + part.offset, slab, part.bytes);
    else
      line_copy(target + part.offset, slab, part.bytes);
  };
  auto flights = flights_of<Span>(session, context, stream, take);
  const uint64_t step = piece_bytes(session.channel().down_slab().size(), bytes);
  wire::CopyFromDeviceArgs args;
  args.stream = stream.id;
  uint64_t asked = 0;
  for (bool goes_on = true; goes_on && asked < bytes; asked += goes_on ? args.bytes : 0) {
    args.source = from + asked;
    args.bytes = std::min(step, bytes - asked);
    goes_on = flights.add(Op::kCopyFromDevice, args, Span{asked, args.bytes});
  }
  const CUresult result = flights.finish();
  return asked == bytes || result != CUDA_SUCCESS ? result : session.lost();
}

CUresult stage_image(Session& session, Context* context, uint64_t upload, const void* image,
                     uint64_t bytes) {
  wire::ImageChunkArgs args;
  args.upload = upload;
  args.total = bytes;
  return send_all(session, context, Op::kImageChunk, &args,
                  {static_cast<const std::byte*>(image), bytes}, nullptr,
                  [](wire::ImageChunkArgs* each, uint64_t sent) { each->offset += sent; });
}

}  // namespace vgpu::shim
