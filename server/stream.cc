// Streams: life, order, waiting.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {

bool handle_StreamCreate(Session& session, const wire::StreamCreateArgs& args,
                         const Record& record) {
  if (session.bound() == nullptr) return session.malformed(record, "no context is bound");
  auto stream = std::make_unique<Stream>();
  stream->context = session.bound();
  CUstream handle = nullptr;
  const CUresult result =
      session.driver().cuStreamCreateWithPriority(&handle, args.flags, args.priority);
  stream->handle = handle;
  if (result == CUDA_SUCCESS &&
      session.streams().insert(args.stream, std::move(stream)) == nullptr) {
    (void)session.driver().cuStreamDestroy_v2(handle);
    return session.malformed(record, "stream id");
  }
  return session.complete(record, result, nullptr, 0);
}

bool handle_StreamDestroy(Session& session, const wire::StreamDestroyArgs& args,
                          const Record& record) {
  std::unique_ptr<Stream> stream = session.streams().take(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  session.forget_slab_stream(stream.get());
  if (stream->dirty) {
    // Its work goes on without it, and frees must still wait for that work.
    Mark orphan;
    const CUresult marked = session.mark(stream.get(), &orphan);
    if (marked == CUDA_SUCCESS) stream->context->orphans.push_back(orphan);
    session.noted(marked, stream->context);
    std::vector<Stream*>& dirty = stream->context->dirty;
    dirty.erase(std::remove(dirty.begin(), dirty.end(), stream.get()), dirty.end());
  }
  return session.complete(record, session.driver().cuStreamDestroy_v2(stream->handle), nullptr, 0);
}

bool handle_StreamWaitEvent(Session& session, const wire::StreamWaitEventArgs& args,
                            const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  CUevent event = nullptr;
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (!session.event(args.event, &event)) return session.malformed(record, "unknown event");
  session.touch(stream);
  return session.complete(
      record, session.driver().cuStreamWaitEvent(stream->handle, event, args.flags), nullptr, 0);
}

bool handle_StreamSynchronize(Session& session, const wire::StreamSynchronizeArgs& args,
                              const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  const bool legacy = args.stream == kLegacyStream;
  if (!legacy) {
    // For the legacy stream a query does not look at the streams that it orders with.
    const CUresult state = session.driver().cuStreamQuery(stream->handle);
    if (state != CUDA_ERROR_NOT_READY) return session.complete(record, state, nullptr, 0);
  }
  Mark mark;
  const CUresult result = session.mark(stream, &mark);
  if (result != CUDA_SUCCESS) return session.complete(record, result, nullptr, 0);
  session.answer_after({mark}, record.reply(), stream->context);
  return true;
}

bool handle_StreamQuery(Session& session, const wire::StreamQueryArgs& args, const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  return session.complete(record, session.driver().cuStreamQuery(stream->handle), nullptr, 0);
}

}  // namespace vgpu::server
