// What a channel needs from whatever carries it.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_TRANSPORT_TRANSPORT_H_
#define VGPU_PROTOCOL_TRANSPORT_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/mapping.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "protocol/ring/layout.h"
#include "protocol/transport/mover.h"

namespace vgpu::protocol {

enum class Role : uint8_t { kGuest, kWorker };

// Owns the memory of one channel and what tells that the peer is alive. Thread-safe: everything is
// constant after construction, except send_descriptor and receive_descriptor, of which one of each
// may run at a time.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::span<std::byte> memory() const = 0;
  virtual const ChannelSizes& sizes() const = 0;

  // Polls as hung up (POLLHUP, or readable with end of file) when the peer is gone. Borrowed.
  virtual int liveness_fd() const = 0;

  // Whether a pointer means the same on both sides (loop: guest and worker are one process).
  virtual bool same_address_space() const = 0;

  // How this side sleeps and wakes the other. What it points to lives as long as the transport.
  virtual Bell bell() const { return {}; }

  // A descriptor beside the channel, with a number that says what it is for (HostMap: the address).
  virtual Status send_descriptor(int fd, uint64_t tag) = 0;
  // The next descriptor that the peer sent; waits up to timeout_ms (< 0: no limit).
  virtual Result<std::pair<UniqueFd, uint64_t>> receive_descriptor(int timeout_ms) = 0;

  // What the guest's side is told to move; null where both sides see the same memory.
  virtual Mover* mover() { return nullptr; }
};

// --- loop: both ends in one process
// --------------------------------------------------------------------
struct LoopPair {
  std::unique_ptr<Transport> guest;
  std::unique_ptr<Transport> worker;
};
// Fresh zeroed memory shared by two ends. It lives until both are gone.
Result<LoopPair> make_loop(const ChannelSizes& sizes);

// --- shm: sealed memfd and unix socket (shm.cc)
// ---------------------------------------------------------- Zeroed memory of that size whose size
// nobody can change any more (a guest that shrank it would kill the worker with SIGBUS).
Result<UniqueFd> make_sealed_memory(uint64_t bytes, const char* name);

// Whether `fd` is a memfd of at least `bytes` that is sealed against shrinking. For every
// descriptor a peer sends.
Status check_sealed_memory(int fd, uint64_t bytes);

// One end over mapped `memory_fd` (checked; not kept) and the connection (kept: it is the liveness
// descriptor).
Result<std::unique_ptr<Transport>> make_shm(Role role, UniqueFd connection, int memory_fd,
                                            const ChannelSizes& sizes);

// --- region: a piece of memory that another kernel maps too (region.cc)
// ------------------------------------------------------------------------------------------------
// A bell, and what it needs to live.
struct BellParts {
  Bell bell;
  Mapping epoch, doorbell;
  UniqueFd event;
};

// One end over the piece of `region_fd` (not kept) that begins at `offset`. The worker insists on a
// memfd that nobody can shrink, and clears what it wants zeroed. No descriptors can be sent: the
// peer may run under another kernel.
Result<std::unique_ptr<Transport>> make_region(Role role, UniqueFd connection, int region_fd,
                                               uint64_t offset, const ChannelSizes& sizes,
                                               BellParts parts);

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_TRANSPORT_TRANSPORT_H_
