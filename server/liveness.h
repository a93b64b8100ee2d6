// Whether guest and vgpud are still there, on a thread of its own.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_LIVENESS_H_
#define VGPU_SERVER_LIVENESS_H_

#include <functional>
#include <thread>

#include "base/unique_fd.h"
#include "server/leaving.h"
#include "server/steering.h"
#include "server/turn_link.h"
#include "server/worker_link.h"
#include "server/worker_peers.h"

namespace vgpu::server {

// A guest's process is watched as well as its connection: a forked child may hold that open.
struct Liveness {
  int connection = -1;  // borrowed: the guest's
  UniqueFd guest;       // pidfd; invalid when the guest's process is not visible here
  UniqueFd control;     // vgpud's socket
  UniqueFd page;        // memory of WorkerPage, for the next vgpud
  UniqueFd door;        // where a later vgpud knocks
  uid_t server_user = 0;
  WorkerAdopt adopt;  // what it is told
  uint64_t started_ms = 0;
  TurnLink* turns = nullptr;     // borrowed
  WorkerPeers* peers = nullptr;  // borrowed: what vgpud says is for them, or
  Steering* steering = nullptr;  // borrowed: an order
  Leaving* leaving = nullptr;    // borrowed
  // In a process of several guests none of them ends it: this is called instead, when the guest is
  // gone or vgpud ends it. The thread ends when `over` can be read.
  std::function<void()> gone;
  int over = -1;
};

// Starts the thread. It ends the process at once when the guest is gone: the kernel and the driver
// clean up faster than we could. When vgpud is gone it waits for a later one to knock.
void watch(Liveness liveness);
// The same for one of several guests. Joined once `over` was told; then vgpud's socket is closed.
std::thread watch_one(Liveness liveness);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_LIVENESS_H_
