// Asking vgpud for the end of this process.
// SPDX-License-Identifier: Apache-2.0
#include "server/leaving.h"

#include <poll.h>
#include <unistd.h>

#include "protocol/transport/control_socket.h"
#include "server/worker_link.h"

namespace vgpu::server {

void Leaving::connected(int control) {
  std::lock_guard lock(mutex_);
  control_ = control;
}

void Leaving::leave(int code) {
  bool asked = false;
  if (asks_first_) {
    std::lock_guard lock(mutex_);
    PeerMessage message;
    message.kind = PeerMessageKind::kLeave;
    message.request = static_cast<uint64_t>(code);
    asked = control_ >= 0 && protocol::send_frame(control_, bytes_of(message), {}, 0).ok();
  }
  if (asked) (void)poll(nullptr, 0, kLeaveMs);
  _exit(code);
}

}  // namespace vgpu::server
