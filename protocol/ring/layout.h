// Where everything lies in the memory that a guest and its worker share.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_RING_LAYOUT_H_
#define VGPU_PROTOCOL_RING_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/status.h"
#include "protocol/limits.h"
#include "protocol/ring/bell.h"

//   offset 0        ChannelHeader    one page: identity, and a cache line for each thing that one
//   side writes
//          4096     SemaphorePage    written by the worker, polled by the guest
//          8192     HostCallPage     functions of the guest's that the worker asks it to run
//          12288    ReplySlot[256]   one cache line pair for each waiting guest thread
//          45056    ring             ring_bytes, a power of two
//          ...      up-slab          up_bytes: staged blobs on their way to the worker
//          ...      down-slab        down_bytes: results on their way to the guest
//
//   ChannelHeader, one line (64 bytes) each:
//     0 identity        worker writes once before it sends the memory
//     1 tail, cpu       guest writes: end of what it has published
//     2 head, cpu       worker writes: end of what it has used up
//     3 consumer sleep  futex word: the worker says 1 before it sleeps, the guest takes it back and
//     wakes 4 producer sleep  the same for a guest that waits for room
//
// Positions (head, tail) count bytes since the start and never wrap; the place in the ring is
// position & (ring_bytes - 1). Both sides keep their own position privately and only publish it;
// neither ever reads its own back.

namespace vgpu::protocol {

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<uint64_t>) == 8 && sizeof(std::atomic<uint32_t>) == 4);

inline constexpr uint32_t kChannelMagic = 0x55504776;  // "vGPU"

struct alignas(kCacheLineBytes) IdentityLine {
  uint32_t magic;
  uint32_t version;
  uint64_t ring_bytes;
  uint64_t up_bytes;
  uint64_t down_bytes;
};

// Written by one side. Partner of every access is the other side's view of the same line.
struct alignas(kCacheLineBytes) PositionLine {
  std::atomic<uint64_t> position;  // release by the owner, acquire by the peer
  std::atomic<uint32_t> cpu;       // last CPU of the owner, a hint for the peer's spinning; relaxed
};

struct alignas(kCacheLineBytes) SleepLine {
  std::atomic<uint32_t> sleeping;  // see doorbell.h
};

struct ChannelHeader {
  IdentityLine identity;
  PositionLine tail;
  PositionLine head;
  SleepLine consumer_sleep;
  SleepLine producer_sleep;
};

// A waiting thread's slot. state is the futex word; see reply.h for its values.
struct alignas(kCacheLineBytes) ReplySlot {
  std::atomic<uint32_t> state;
  int32_t result;  // CUresult
  uint32_t payload_bytes;
  uint32_t reserved;
  std::byte payload[kReplyPayloadBytesMax];
};

struct alignas(kCacheLineBytes) SequenceLine {
  std::atomic<uint64_t> value;  // release by the worker, acquire by the guest; never falls
};

struct alignas(kCacheLineBytes) WaitersLine {
  std::atomic<uint32_t>
      epoch;  // futex word: raised by the worker when it published something and someone waits
  std::atomic<uint32_t> waiters;  // guest threads that may sleep on epoch
};

struct SemaphorePage {
  SequenceLine executed;      // all records up to this one were carried out or wait in a lane
  SequenceLine slab_retired;  // the up-slab space used by records up to this one is free again
  SequenceLine free_retired;  // work that may touch memory freed before this record is past
  SequenceLine output;        // bytes that the guest's kernels have printed
  alignas(kCacheLineBytes) std::atomic<uint32_t> session_state;  // SessionState
  std::atomic<int32_t> session_error;  // CUresult of every call once the state is not kRunning
  WaitersLine waiters;
  alignas(kCacheLineBytes)
      std::atomic<int32_t> sticky[kContextSlots];  // CUresult per context slot; 0 = healthy
  // How many lanes of streams with this word are long: their streams take no more work for now.
  alignas(kCacheLineBytes) std::atomic<uint32_t> held[kHoldWords];
  // Bytes ever backed for this guest, of each of its devices; release by the worker, acquire by the
  // guest; never falls.
  alignas(kCacheLineBytes) std::atomic<uint64_t> backed_credit[kDevicesMax];
  // What the guest may have of each of its devices since that was changed; 0: as the answer to
  // hello says.
  alignas(kCacheLineBytes) std::atomic<uint64_t> quota[kDevicesMax];
};

// A function that the guest has named and shall run now.
struct HostCallEntry {
  uint64_t id;
  int32_t status;  // CUresult for those that want one
  uint32_t reserved;
};

// A ring of calls upwards. Positions count calls and never wrap. The guest runs them one after the
// other, so "finished" says which are over.
struct HostCallPage {
  PositionLine posted;     // worker writes
  PositionLine finished;   // guest writes
  SleepLine guest_sleep;   // the guest's thread waits for calls
  SleepLine worker_sleep;  // the worker's waits for their ends
  HostCallEntry entries[kHostCallEntries];
};

static_assert(sizeof(IdentityLine) == 64 && sizeof(PositionLine) == 64 && sizeof(SleepLine) == 64);
static_assert(offsetof(ChannelHeader, tail) == 64 && offsetof(ChannelHeader, head) == 128);
static_assert(offsetof(ChannelHeader, consumer_sleep) == 192);
static_assert(offsetof(ChannelHeader, producer_sleep) == 256);
static_assert(sizeof(ChannelHeader) <= kPageBytes);
static_assert(sizeof(ReplySlot) == 128 && offsetof(ReplySlot, payload) == 16);
static_assert(offsetof(SemaphorePage, slab_retired) == 64 &&
              offsetof(SemaphorePage, output) == 192 &&
              offsetof(SemaphorePage, session_state) == 256);
static_assert(offsetof(SemaphorePage, waiters) == 320 && offsetof(SemaphorePage, sticky) == 384);
static_assert(offsetof(SemaphorePage, held) == 640 &&
              offsetof(SemaphorePage, backed_credit) == 896);
static_assert(offsetof(SemaphorePage, quota) == 1024);
static_assert(sizeof(SemaphorePage) <= kPageBytes);
static_assert(sizeof(HostCallEntry) == 16 && offsetof(HostCallPage, finished) == 64);
static_assert(offsetof(HostCallPage, guest_sleep) == 128 && offsetof(HostCallPage, entries) == 256);
static_assert(sizeof(HostCallPage) <= kPageBytes);

inline constexpr size_t kSemaphoreOffset = kPageBytes;
inline constexpr size_t kHostCallOffset = 2 * kPageBytes;
inline constexpr size_t kReplyOffset = 3 * kPageBytes;
inline constexpr size_t kRingOffset = kReplyOffset + kReplySlots * sizeof(ReplySlot);
static_assert(kRingOffset % kPageBytes == 0);

// The sizes that handshake agrees on. Everything else follows from them.
struct ChannelSizes {
  uint64_t ring_bytes = kRingBytesDefault;
  uint64_t up_bytes = kSlabBytesDefault;
  uint64_t down_bytes = kSlabBytesDefault;

  // Whether ring is a power of two and all are whole pages within the limits. Everything below
  // wants that to hold.
  Status check() const;
  // What fits into `bytes`, no more than the defaults; the slabs share what the ring leaves. Fails
  // check() when that is too little.
  static ChannelSizes fitting(uint64_t bytes);
  uint64_t up_offset() const { return kRingOffset + ring_bytes; }
  uint64_t down_offset() const { return up_offset() + up_bytes; }
  uint64_t total_bytes() const { return down_offset() + down_bytes; }
};

// Pointers into one mapping of the channel. Borrowed: the mapping must outlive it.
class ChannelView {
 public:
  // `memory` is page-aligned and holds at least sizes.total_bytes(); sizes.check() was ok.
  ChannelView(std::byte* memory, const ChannelSizes& sizes, const Bell& bell = {})
      : memory_(memory), sizes_(sizes), bell_(bell) {}

  ChannelHeader* header() const { return reinterpret_cast<ChannelHeader*>(memory_); }
  SemaphorePage* semaphores() const {
    return reinterpret_cast<SemaphorePage*>(memory_ + kSemaphoreOffset);
  }
  HostCallPage* host_calls() const {
    return reinterpret_cast<HostCallPage*>(memory_ + kHostCallOffset);
  }
  ReplySlot* replies() const { return reinterpret_cast<ReplySlot*>(memory_ + kReplyOffset); }
  std::byte* ring() const { return memory_ + kRingOffset; }
  std::span<std::byte> up_slab() const { return {memory_ + sizes_.up_offset(), sizes_.up_bytes}; }
  std::span<std::byte> down_slab() const {
    return {memory_ + sizes_.down_offset(), sizes_.down_bytes};
  }
  const ChannelSizes& sizes() const { return sizes_; }
  const Bell& bell() const { return bell_; }

  // Worker: writes the identity into fresh zeroed memory, before the guest gets it.
  void write_identity() const;
  // Guest: whether the memory is what the handshake promised.
  Status check_identity() const;

 private:
  std::byte* memory_;
  ChannelSizes sizes_;
  Bell bell_;
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_RING_LAYOUT_H_
