// What vgpud hands a worker for one guest, and what the worker makes of it first.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_GUEST_PAPERS_H_
#define VGPU_SERVER_GUEST_PAPERS_H_

#include <memory>
#include <vector>

#include "protocol/session/handshake.h"
#include "server/attach.h"
#include "server/liveness.h"

namespace vgpu::server {

struct GuestPapers {
  UniqueFd connection, board, bell;
  std::vector<UniqueFd> more;  // what came behind these
  WorkerAssign assign;
  protocol::Hello hello;

  // kMalformed: not an assignment with so many descriptors.
  static Result<GuestPapers> read(protocol::ControlFrame frame, size_t descriptors);
  // What is known of it for watching: its process, and what a later vgpud is told.
  Liveness liveness() const;
  // Its process has ended.
  bool is_gone() const;
};

// What was granted, as the devices of the guest.
Status grant_devices(Devices* devices, const WorkerGrants& grants);

// The channel in memory of ours, or in a piece of what the guest's side has brought, where host
// memory cannot be shared.
Result<std::unique_ptr<protocol::WorkerChannel>> open_channel(const Devices& devices,
                                                              UniqueFd connection,
                                                              const protocol::Hello& hello,
                                                              protocol::HelloReply* reply);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_GUEST_PAPERS_H_
