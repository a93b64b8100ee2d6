// One guest from its hello to the end of its session: what the worker's process is for.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_SERVE_H_
#define VGPU_SERVER_SERVE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "server/attach.h"
#include "server/session.h"
#include "server/steering.h"
#include "server/worker_link.h"

namespace vgpu::server {

// What a session has beside its guest and its devices; null members: there is none.
struct ServeOptions {
  WorkerPage* page = nullptr;  // where its figures are published
  Peers* peers = nullptr;      // how it shares with other sessions
  Shares* shares = nullptr;
  Steering* steering = nullptr;
  TurnLink* turns = nullptr;  // with whom the devices are shared
  // Who has sessions in this process and its contexts too, and this one's place among them. Then
  // all is given back in order at the end.
  Neighbours* neighbours = nullptr;
  uint32_t place = 0;
};

// Registers both slabs with the driver, so that copies through them are asynchronous, then serves
// the channel until the session ends. Blocks. In a process of its own (the peer has another address
// space, and there are no neighbours) nothing is given back: the caller ends the process at once.
SessionEnd serve_guest(const DriverTable* driver, Devices* devices,
                       const protocol::HelloReply& reply, protocol::WorkerChannel* channel,
                       const ServeOptions& options = {});

}  // namespace vgpu::server

#endif  // VGPU_SERVER_SERVE_H_
