// One guest of another host: what stands between its connection and the worker on this one.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_FABRIC_BRIDGE_H_
#define VGPU_NET_FABRIC_BRIDGE_H_

#include <pthread.h>

#include <atomic>
#include <memory>

#include "base/status.h"
#include "base/unique_fd.h"
#include "net/fabric/gate_mover.h"
#include "net/fabric/link.h"
#include "protocol/ring/layout.h"

namespace vgpu::net {

// Bridges until one side is gone. The thread that serves does everything while something moves;
// asleep it waits for the network itself, and a helper waits for the worker's futex words for it.
class Bridge {
 public:
  // `view` is the memory that the gate shares with the worker as its guest; `liveness_fd` hangs up
  // when the worker is gone; `end_fd` is readable when the session is to end (-1: never). All
  // borrowed.
  Bridge(const protocol::ChannelView& view, Link* link, int liveness_fd, int end_fd);
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;
  ~Bridge();

  // Blocks. Why it is over; ok() when one side has just gone.
  Status serve();

 private:
  static void* run(void* argument);
  void watch();
  void rest();
  bool ended() const;

  protocol::ChannelView view_;
  Link* link_;
  GateMover mover_;
  int liveness_fd_;
  int end_fd_;
  UniqueFd bell_;  // eventfd: the worker has published something
  pthread_t helper_{};
  bool started_ = false;
  std::atomic<uint32_t> armed_{0};     // futex word of the helper: which sleep it waits for
  std::atomic<uint32_t> expected_{0};  // value of the waiters' epoch before that sleep
  std::atomic<uint32_t> watching_{0};  // the sleep that the helper waits for now; 0: none
  std::atomic<bool> stop_{false};
};

}  // namespace vgpu::net

#endif  // VGPU_NET_FABRIC_BRIDGE_H_
