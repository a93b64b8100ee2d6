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

namespace vgpu::server {

// Registers both slabs with the driver, so that copies through them are asynchronous, then serves
// the channel until the session ends. Blocks. `used` may be null, else it is one word for each of
// the guest's devices. In a process of its own (the
// peer has another address space) nothing is given back: the caller ends the process at once.
// `peers` and `shares`: how it shares with other sessions; null where there are none.
SessionEnd serve_guest(const DriverTable* driver, Devices* devices,
                       const protocol::HelloReply& reply, protocol::WorkerChannel* channel,
                       std::atomic<uint64_t>* used, Peers* peers = nullptr,
                       Shares* shares = nullptr);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_SERVE_H_
