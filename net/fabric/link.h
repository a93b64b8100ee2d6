// What carries a mirrored channel: writes into the peer's window, and messages, in order.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_FABRIC_LINK_H_
#define VGPU_NET_FABRIC_LINK_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace vgpu::net {

enum class Sent : uint8_t {
  kDone,  // on its way
  kFull,  // too much is on its way: poll and try again
  kGone,  // the connection is over
};

// Who is told what has come. Called from poll().
class LinkSink {
 public:
  virtual ~LinkSink() = default;
  // One message; the bytes are the link's until it returns. False: it breaks the rules, and the
  // link ends.
  virtual bool received(std::span<const std::byte> message) = 0;
  // The memory that a write with this token has read may be used again.
  virtual void written(uint64_t token) = 0;
};

// One connection. Writes and messages of one side arrive in the order in which they were given: a
// peer that has a message has everything written before it. Not thread-safe.
class Link {
 public:
  virtual ~Link() = default;

  // Copies `from`, at most kWriteBytesMax, to `offset` of the peer's window. The memory must stay
  // as it is until written(token); with token 0 nobody is told, and it must stay until the peer
  // says that it has it. It lies where reaches() says yes.
  virtual Sent write(std::span<const std::byte> from, uint64_t offset, uint64_t token) = 0;
  // Whether write() can read there.
  virtual bool reaches(std::span<const std::byte> memory) const = 0;

  // A message, copied.
  virtual Sent send(std::span<const std::byte> message) = 0;

  // Looks once, without waiting. How many things happened; -1: the connection is over, and
  // everything that had come was handed out.
  virtual int poll(LinkSink* sink) = 0;

  // Before sleeping on the descriptors: whether that is safe, as nothing is there already.
  virtual bool may_sleep() = 0;
  // The longest sleep, in nanoseconds; -1: until a descriptor says otherwise.
  virtual int64_t sleep_ns() { return -1; }
  // Polled for reading; -1: none.
  virtual int completion_fd() const = 0;
  virtual int event_fd() const = 0;

  // The program has not closed what the link has open, so that it may be closed.
  virtual bool intact() const { return true; }

  // Bytes of the peer's window.
  virtual uint64_t window_bytes() const = 0;
  // Says goodbye.
  virtual void shut_down() = 0;
};

}  // namespace vgpu::net

#endif  // VGPU_NET_FABRIC_LINK_H_
