// The guest's memory pools.
// SPDX-License-Identifier: Apache-2.0
#include "shim/pools.h"

#include <algorithm>

#include "shim/device.h"
#include "shim/session.h"
#include "shim/share.h"

namespace vgpu::shim {

GuestPools::GuestPools(std::deque<GuestDevice>& devices, Session& session)
    : pools_(all_memories(devices, session, &memories_),
             all_memories(devices, session, &imported_)) {}

template <typename Kind>
std::vector<PoolMemory*> GuestPools::all_memories(std::deque<GuestDevice>& devices,
                                                  Session& session, std::deque<Kind>* memories) {
  std::vector<PoolMemory*> all;
  for (GuestDevice& device : devices) all.push_back(&memories->emplace_back(device, session));
  return all;
}

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

CUresult GuestPools::Memory::allocate(uint64_t bytes, uint64_t requested, uint64_t* address) {
  const CUresult result = device_.memory().allocate_pooled(bytes, address);
  if (result == CUDA_SUCCESS && requested != bytes)
    device_.memory().show_pooled(*address, requested);
  return result;
}

void GuestPools::Memory::release(uint64_t address, const StreamPlace&, bool past) {
  (void)device_.memory().free_pooled(address, past);
}

bool GuestPools::Memory::split(uint64_t address, uint64_t bytes) {
  return device_.memory().split_pooled(address, bytes);
}

void GuestPools::Memory::show(uint64_t address, uint64_t requested) {
  device_.memory().show_pooled(address, requested);
}

CUresult GuestPools::Memory::share(int peer, bool on) {
  const CUdevice owner = device_.number();
  if (!can_access_peer(session_, peer, owner)) return CUDA_ERROR_INVALID_DEVICE;
  return device_.share(static_cast<uint32_t>(peer), on);
}

// What others have goes only when nothing is under way, as its pages do.
bool GuestPools::Memory::releasable(uint64_t address, const StreamPlace& place) {
  const bool shared = session_.shared().any.load(std::memory_order_relaxed) &&
                      device_.memory().pooled_shared(address);
  return shared ? device_.all_past() : past(place);
}

bool GuestPools::Memory::exports() {
  return attribute(*session_.device(device_.number()),
                   CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES) != 0;
}

void GuestPools::ImportedMemory::release(uint64_t address, const StreamPlace&, bool) {
  (void)close_block(session_, address);
}

void GuestPools::ImportedMemory::show(uint64_t address, uint64_t) {
  session_.virtual_memory().hide_peer(address);
}

bool GuestPools::Memory::past(const StreamPlace& place) {
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
