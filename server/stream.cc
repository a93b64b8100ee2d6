// Streams: life, order, waiting.
// SPDX-License-Identifier: Apache-2.0
#include "api/stream_memory.h"
#include "server/memory_operation.h"
#include "server/work.h"
#include "server_handlers.h"

namespace vgpu::server {

bool handle_StreamCreate(Session& session, const wire::StreamCreateArgs& args,
                         const Record& record) {
  if (session.bound() == nullptr) return session.malformed(record, "no context is bound");
  auto stream = std::make_unique<Stream>(session.bound(), session.bound()->flow);
  stream->blocking = (args.flags & CU_STREAM_NON_BLOCKING) == 0;
  stream->hold_word = protocol::hold_word(args.stream);
  stream->ordered = session.is_packed() && stream->blocking;
  CUstream handle = nullptr;
  // The driver's default stream is all guests'.
  const unsigned flags =
      session.is_packed() ? args.flags | unsigned{CU_STREAM_NON_BLOCKING} : args.flags;
  const CUresult result =
      session.driver().cuStreamCreateWithPriority(&handle, flags, args.priority);
  stream->handle = handle;
  if (result != CUDA_SUCCESS) return session.complete(record, result, nullptr, 0);
  Stream* made = session.streams().insert(args.stream, std::move(stream));
  if (made == nullptr) {
    (void)session.driver().cuStreamDestroy_v2(handle);
    return session.malformed(record, "stream id");
  }
  return session.complete(record, session.catch_up(made), nullptr, 0);
}

bool handle_StreamDestroy(Session& session, const wire::StreamDestroyArgs& args,
                          const Record& record) {
  if (session.find_stream(args.stream) == nullptr || args.stream == kLegacyStream) {
    return session.malformed(record, "unknown stream");
  }
  std::unique_ptr<Stream> owned = session.streams().take(args.stream);
  Stream* stream = owned.get();
  session.forget_slab_stream(stream);
  (void)session.noted(session.depart(stream), stream->context);
  if (stream->dirty) {
    // Its work goes on without it, and frees must still wait for that work.
    MarkRef orphan;
    const CUresult marked = session.noted(session.mark(stream, &orphan), stream->context);
    if (marked == CUDA_SUCCESS) stream->context->orphans.push_back(std::move(orphan));
    std::erase(stream->context->dirty, stream);
  }
  stream->ending = true;
  stream->ordered = false;
  Lane* lane = stream->lane;
  const bool goes_on = session.submit(
      stream, record,
      [owned = std::move(owned)](const DriverTable& driver, CUstream handle, const std::byte*) {
        return driver.cuStreamDestroy_v2(handle);
      },
      {.weight = 0});
  session.abandon_lane(lane);
  return goes_on;
}

bool handle_StreamWaitEvent(Session& session, const wire::StreamWaitEventArgs& args,
                            const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  EventEntry* entry = session.events().find(args.event);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (entry == nullptr) return session.malformed(record, "unknown event");
  return session.submit(stream, record,
                        [event = entry->event, flags = args.flags](
                            const DriverTable& driver, CUstream handle, const std::byte*) {
                          return driver.cuStreamWaitEvent(handle, event->handle, flags);
                        },
                        {.after = entry->event->recorded,
                         .instant = session.is_past(entry->event->handle, entry->event->recorded)});
}

bool handle_StreamSynchronize(Session& session, const wire::StreamSynchronizeArgs& args,
                              const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  if (!stream->legacy && !session.waits_in_lane(*stream) && !session.prints()) {
    // For the legacy stream a query does not look at the streams that it orders with.
    const CUresult state = session.driver().cuStreamQuery(stream->handle);
    if (state != CUDA_ERROR_NOT_READY) return session.complete(record, state, nullptr, 0);
  }
  MarkRef mark;
  const CUresult result = session.mark(stream, &mark);
  if (result != CUDA_SUCCESS) return session.complete(record, result, nullptr, 0);
  session.answer_after({std::move(mark)}, record.reply(), stream->context);
  return true;
}

bool handle_StreamQuery(Session& session, const wire::StreamQueryArgs& args, const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  CUresult state = session.waits_in_lane(*stream) ? CUDA_ERROR_NOT_READY
                                                  : session.driver().cuStreamQuery(stream->handle);
  // Behind the guest's work may stand events of ours, which it must not notice: once it knows that
  // its last event is past, the stream is idle.
  if (state == CUDA_ERROR_NOT_READY && stream->last_record != 0 && !stream->legacy) {
    const std::shared_ptr<Event> last = stream->last_event.lock();
    if (last != nullptr && last->records == stream->last_record && last->recorded.passed()) {
      state = session.driver().cuEventQuery(last->handle);
    }
  }
  return session.complete(record, state, nullptr, 0);
}

const char* check_memory_operation(Session& session, const wire::StreamMemoryArgs& args) {
  StreamMemoryOperation operation;
  operation.operation = static_cast<MemoryOperation>(args.operation);
  if (args.operation == 0 || args.operation > static_cast<uint32_t>(MemoryOperation::kWrite64) ||
      args.condition > CU_STREAM_WAIT_VALUE_NOR) {
    return "operation";
  }
  const uint64_t bytes = operation.bytes();
  const bool good =
      args.address % bytes == 0 && (session.memory().owns(args.address, bytes) ||
                                    session.host_memory().contains(args.address, bytes));
  return good ? nullptr : "not the guest's memory";
}

bool handle_StreamMemory(Session& session, const wire::StreamMemoryArgs& args,
                         const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (const char* why = check_memory_operation(session, args); why != nullptr)
    return session.malformed(record, why);
  if (session.driver().cuStreamBatchMemOp_v2 == nullptr) {
    return session.refuse(record, "cuStreamBatchMemOp_v2");
  }
  return session.submit(
      stream, record, [args](const DriverTable& driver, CUstream handle, const std::byte*) {
        switch (static_cast<MemoryOperation>(args.operation)) {
          case MemoryOperation::kWait32:
            return driver.cuStreamWaitValue32_v2(
                handle, args.address, static_cast<cuuint32_t>(args.value), args.condition);
          case MemoryOperation::kWait64:
            return driver.cuStreamWaitValue64_v2(handle, args.address, args.value, args.condition);
          case MemoryOperation::kWrite32:
            return driver.cuStreamWriteValue32_v2(handle, args.address,
                                                  static_cast<cuuint32_t>(args.value), 0);
          default:
            return driver.cuStreamWriteValue64_v2(handle, args.address, args.value, 0);
        }
      });
}

}  // namespace vgpu::server
