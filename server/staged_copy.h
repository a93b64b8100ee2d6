// Copies whose host side is in the channel: behind the record, or in a slab. For the handlers of
// linear copies and of boxes. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_STAGED_COPY_H_
#define VGPU_SERVER_STAGED_COPY_H_

#include <utility>

#include "server/work.h"

namespace vgpu::server {

// Bytes behind a record travel inside the driver's own queue, so they fill it faster.
constexpr uint32_t inline_weight(uint64_t bytes) { return 1 + static_cast<uint32_t>(bytes / 256); }

// To the device: `call(driver, stream, from)` copies args.bytes packed bytes from host memory.
template <typename Args, typename Call>
bool copy_up(Session& session, Stream* stream, const Args& args, const Record& record, Call call) {
  session.figures().copied_to(args.bytes);
  const DeviceWork work = copy_work(scheduler::Engine::kToDevice, args.bytes);
  if (!record.blob().empty()) {
    if (record.blob().size() != args.bytes) return session.malformed(record, "blob size");
    return session.submit(
        stream, record, call,
        {.weight = inline_weight(args.bytes), .blob = record.blob().bytes, .work = work});
  }
  const auto piece =
      protocol::slab_range(session.channel().up_slab(), args.slab_offset, args.bytes);
  if (!piece) return session.malformed(record, "slab range");
  const bool goes_on = session.submit(
      stream, record,
      [call, from = piece->data()](const DriverTable& driver, CUstream handle, const std::byte*) {
        return call(driver, handle, from);
      },
      {.may_block = !session.slab_registered(), .work = work});
  session.slab_used(stream, args.bytes, record.sequence());
  return goes_on;
}

// From the device: `call(driver, stream, to)` copies args.bytes packed bytes into host memory. The
// guest's reply slot is answered once they are there.
template <typename Args, typename Call>
bool copy_down(Session& session, Stream* stream, const Args& args, const Record& record,
               Call call) {
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  const auto piece =
      protocol::slab_range(session.channel().down_slab(), args.slab_offset, args.bytes);
  if (!piece) return session.malformed(record, "slab range");
  session.figures().copied_from(args.bytes);
  CUresult result = session.issue(
      stream, record.op(),
      [call, to = piece->data()](const DriverTable& driver, CUstream handle, const std::byte*) {
        return call(driver, handle, to);
      },
      {.may_block = !session.slab_registered(),
       .work = copy_work(scheduler::Engine::kFromDevice, args.bytes)});
  MarkRef mark;
  if (result == CUDA_SUCCESS) result = session.mark(stream, &mark);
  if (result != CUDA_SUCCESS) return session.complete(record, result, nullptr, 0);
  if (args.bytes <= kSoonBytesMax) {
    session.answer_soon(std::move(mark), record.reply());
  } else {
    session.answer_after({std::move(mark)}, record.reply(), stream->context);
  }
  return true;
}

}  // namespace vgpu::server

#endif  // VGPU_SERVER_STAGED_COPY_H_
