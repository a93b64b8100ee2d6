// Starting a process with a control socket: workers, the gate, its sessions.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_TRANSPORT_SPAWN_H_
#define VGPU_PROTOCOL_TRANSPORT_SPAWN_H_

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace vgpu::protocol {

struct Spawned {
  pid_t pid = 0;
  UniqueFd control;  // our end of the socket pair
  UniqueFd process;  // pidfd
};

// Runs `program --control 3 <arguments>` in a session of its own (a Ctrl-C at the terminal is for
// the parent alone) with nothing open but stdin, stdout, stderr, the control socket and, from 4 on,
// `more`: at most 6. Its environment is ours, but for `settings`, NAME=VALUE.
Result<Spawned> spawn(const std::string& program, const std::vector<std::string>& arguments,
                      std::span<const int> more = {}, std::span<const std::string> settings = {});

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_TRANSPORT_SPAWN_H_
