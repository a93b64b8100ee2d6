// One guest of another host: what stands between its connection and the worker on this one.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_FABRIC_BRIDGE_H_
#define VGPU_NET_FABRIC_BRIDGE_H_

#include <pthread.h>

#include <atomic>
#include <functional>
#include <memory>

#include "base/status.h"
#include "base/unique_fd.h"
#include "net/fabric/gate_mover.h"
#include "net/fabric/link.h"
#include "protocol/ring/layout.h"

namespace vgpu::net {

// Bridges over one connection after the other. The thread that serves does everything while
// something moves; asleep it waits for the network itself, and a helper waits for the worker's
// futex words for it.
class Bridge {
 public:
  // `view` is the memory that the gate shares with the worker as its guest; `liveness_fd` hangs up
  // when the worker is gone; when `end_fd` is readable (-1: never), `interrupted` says whether that
  // is a reason to stop. All borrowed.
  Bridge(const protocol::ChannelView& view, int liveness_fd, int end_fd,
         std::function<bool()> interrupted);
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;
  ~Bridge();

  // Once, first.
  Status start();
  // Blocks until the connection, the worker or the session is over. `theirs`: how far the guest has
  // come. Not ok(): somebody broke the rules; then the session is over.
  Status serve(Link* link, const Positions& theirs);
  Positions positions() const { return mover_.positions(); }

 private:
  static void* run(void* argument);
  void watch();
  void rest();
  bool ended() const;

  protocol::ChannelView view_;
  Link* link_ = nullptr;
  GateMover mover_;
  int liveness_fd_;
  int end_fd_;
  std::function<bool()> interrupted_;
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
