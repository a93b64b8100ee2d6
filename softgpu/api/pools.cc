// The memory pools of all devices.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/pools.h"

#include "softgpu/api/context_object.h"

namespace vgpu::softgpu {
namespace {

StreamQueue* queue_of(const StreamPlace& place) {
  return static_cast<StreamQueue*>(const_cast<void*>(place.queue.get()));
}

}  // namespace

DevicePools::DevicePools(const std::vector<std::unique_ptr<Device>>& devices)
    : pools_(all_memories(devices, &memories_), all_memories(devices, &imported_)) {}

template <typename Kind>
std::vector<PoolMemory*> DevicePools::all_memories(
    const std::vector<std::unique_ptr<Device>>& devices, std::deque<Kind>* memories) {
  std::vector<PoolMemory*> all;
  for (const auto& device : devices) all.push_back(&memories->emplace_back(*device));
  return all;
}

StreamPlace DevicePools::place(const Stream& stream) {
  StreamPlace place;
  place.context = stream.context->id;
  place.stream = stream.id;
  place.legacy = stream.queue->legacy;
  place.blocking = stream.queue->blocking;
  return place;
}

// A marker is past when all is that the stream heeds, which its other work need not show.
StreamPlace DevicePools::end_of(const Stream& stream) {
  StreamPlace end = place(stream);
  GridManagement& management = stream.context->device().management();
  if (management.nothing_before(*stream.queue)) return end;
  end.queue = stream.queue;
  end.number = management.submit(stream.queue, std::make_unique<Command>());
  return end;
}

void DevicePools::note_wait(const Stream& stream, Event& event) {
  if (!pools_.used()) return;
  std::unique_lock<std::mutex> lock(event.mutex);
  const uint64_t recorded = event.stream_id, number = event.ordinal;
  lock.unlock();
  if (recorded != 0) pools_.follow(place(stream), event.context->id, recorded, number);
}

CUresult DevicePools::Memory::allocate(uint64_t bytes, uint64_t requested, uint64_t* address) {
  *address = device_.memory().allocate(bytes, MemoryKind::kDevice, 0);
  if (*address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  device_.memory().set_pooled(*address, requested);
  return CUDA_SUCCESS;
}

void DevicePools::Memory::release(uint64_t address, const StreamPlace& place, bool past) {
  if (!past && place.queue != nullptr)
    device_.management().wait_for(*queue_of(place), place.number);
  device_.memory().free(address);
}

void DevicePools::ImportedMemory::release(uint64_t address, const StreamPlace& place, bool past) {
  if (!past && place.queue != nullptr)
    device_.management().wait_for(*queue_of(place), place.number);
  device_.memory().close_peer(address);
}

bool DevicePools::Memory::split(uint64_t address, uint64_t bytes) {
  return device_.memory().split_pooled(address, bytes);
}

void DevicePools::Memory::show(uint64_t address, uint64_t requested) {
  device_.memory().set_pooled(address, requested);
}

bool DevicePools::Memory::past(const StreamPlace& place) {
  return place.queue == nullptr ||
         queue_of(place)->completed.load(std::memory_order_acquire) >= place.number;
}

}  // namespace vgpu::softgpu
