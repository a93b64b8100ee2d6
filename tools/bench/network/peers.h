// The processes that vgpu bench network measures against.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_BENCH_NETWORK_PEERS_H_
#define VGPU_TOOLS_BENCH_NETWORK_PEERS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "net/fabric/ends.h"
#include "net/fabric/fabric.h"
#include "protocol/session/channel.h"

namespace vgpu::bench {

// Commands of the bench's own worker.
enum WorkerOp : uint16_t { kDrop = 1, kAnswer = 2, kCopyUp = 3, kCopyDown = 4 };
struct CopyArgs {
  uint64_t slab_offset, bytes, device_offset, reserved;
};
inline constexpr uint64_t kDeviceBytes = 64 << 20;  // "device" memory that copies go through

// What raw peers are asked by a first word of each message.
enum RawOp : uint64_t { kEcho = 1, kStreamEnd = 2, kStreamDown = 3 };
inline constexpr uint64_t kRawWindowBytes = 32 << 20;
inline constexpr uint64_t kRawAwakeNs = 20'000'000;  // so long after the last thing that came

// A process of this bench; killed when it ends.
class Peer {
 public:
  Peer() = default;
  explicit Peer(pid_t pid) : pid_(pid) {}
  Peer(Peer&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Peer& operator=(Peer&& other) noexcept;
  ~Peer();
  pid_t pid() const { return pid_; }
  // CPU time so far, in nanoseconds.
  uint64_t cpu_ns() const;

 private:
  pid_t pid_ = -1;
};

// All are started before this process first uses libfabric.
struct RawServer {
  Peer process;
  std::string address;
};
struct Session {
  Peer gate, worker;
  std::string address;
};

// Everything fails by ending the program with a message.
RawServer start_raw(const net::Provider& provider, const net::Secret& secret);
Session start_session(const net::Provider& provider, const net::Secret& secret,
                      const protocol::ChannelSizes& sizes);

// Keeps the calling thread, and those that it makes, on one of the CPUs that it may use, by its
// place among them; where there is only one, nothing changes. The guest is kept on the first and
// all that is a server's on the second, raw ones likewise, as if they were two hosts: left to
// itself, a scheduler may put all of them on one, or two that poll without end.
void keep_on_cpu(size_t place);

[[noreturn]] void die(const std::string& text);

}  // namespace vgpu::bench

#endif  // VGPU_TOOLS_BENCH_NETWORK_PEERS_H_
