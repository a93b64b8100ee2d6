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

// A piece as it lies in the caller's memory.
struct Span {
  uint64_t offset = 0, bytes = 0;
};

}  // namespace

CUresult stage_to_device(Session& session, Context* context, uint64_t to, const void* from,
                         uint64_t bytes, const StreamRef& stream) {
  const auto* source = static_cast<const std::byte*>(from);
  wire::CopyToDeviceArgs args;
  args.stream = stream.id;
  session.stats().add(&Stats::bytes_to_device, bytes);
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
    const bool sent = send_piece(session, args.bytes, FillFrom{{source + done, args.bytes}},
                                 [&](uint64_t offset) {
                                   args.slab_offset = offset;
                                   return session.post_locked(context, Op::kCopyToDevice, args, {},
                                                              protocol::kNoReply, &stream);
                                 });
    if (!sent) return session.lost();
  }
  return CUDA_SUCCESS;
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
    const bool sent = send_piece(session, args.bytes, FillFrom{{source + done, args.bytes}},
                                 [&](uint64_t offset) {
                                   args.slab_offset = offset;
                                   return session.post_locked(context, Op::kImageChunk, args, {},
                                                              protocol::kNoReply, nullptr);
                                 });
    if (!sent) return session.lost();
  }
  return CUDA_SUCCESS;
}

}  // namespace vgpu::shim
