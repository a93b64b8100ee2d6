// The guest's memory pools.
// SPDX-License-Identifier: Apache-2.0
#include "shim/pools.h"

#include <algorithm>

#include "shim/session.h"

namespace vgpu::shim {

StreamPlace GuestPools::place(const Context& context, const StreamRef& stream) {
  StreamPlace place;
  place.context = context.id;
  place.stream = stream.id;
  // relaxed: what this thread has submitted it sees; what others have, the program orders.
  if (stream.stream == nullptr) {
    place.legacy = place.blocking = true;
    place.number = context.legacy.submitted.load(std::memory_order_relaxed);
    return place;
  }
  place.blocking = (stream.stream->flags & CU_STREAM_NON_BLOCKING) == 0;
  place.number = stream.stream->progress.submitted.load(std::memory_order_relaxed);
  if (place.blocking) place.legacy_number = context.legacy_own.load(std::memory_order_relaxed);
  return place;
}

void GuestPools::note_wait(const Context& context, const StreamRef& stream, const Context& of,
                           const Event::Record& record) {
  if (pools_.used() && record.stream != 0)
    pools_.follow(place(context, stream), of.id, record.stream, record.number);
}

CUresult GuestPools::allocate(uint64_t bytes, uint64_t requested, uint64_t* address) {
  const CUresult result = session_.memory().allocate_pooled(bytes, address);
  if (result == CUDA_SUCCESS && requested != bytes)
    session_.memory().show_pooled(*address, requested);
  return result;
}

void GuestPools::release(uint64_t address, const StreamPlace&, bool past) {
  (void)session_.memory().free_pooled(address, past);
}

bool GuestPools::split(uint64_t address, uint64_t bytes) {
  return session_.memory().split_pooled(address, bytes);
}

void GuestPools::show(uint64_t address, uint64_t requested) {
  session_.memory().show_pooled(address, requested);
}

bool GuestPools::past(const StreamPlace& place) {
  const auto done = [](const Progress& progress, uint64_t number) {
    return number <= progress.completed.load(std::memory_order_relaxed);
  };
  const uint64_t number = std::max(place.number, place.legacy_number);
  if (number <= session_.retired() || done(session_.progress(), number)) return true;
  const Context* context = session_.contexts().find(handle_of<CUcontext>(place.context));
  if (context == nullptr || done(context->progress, number)) return true;
  if (place.blocking && done(context->legacy, number)) return true;
  // What of the legacy stream comes behind the stream's own work, the stream says nothing about.
  if (place.legacy || place.legacy_number > place.number) return false;
  const Stream* stream = session_.streams.find(place.stream);
  return stream != nullptr && done(stream->progress, place.number);
}

}  // namespace vgpu::shim
