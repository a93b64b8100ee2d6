// Starting a worker process.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_SPAWN_H_
#define VGPU_SERVER_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace vgpu::server {

struct Spawned {
  pid_t pid = 0;
  UniqueFd control;  // our end of the socket pair
  UniqueFd process;  // pidfd
};

// Runs `program --control 3 --door 4 <arguments>` in a session of its own (a Ctrl-C at the terminal
// is for vgpud alone) with nothing open but stdin, stdout, stderr, the control socket and `door`.
Result<Spawned> spawn_worker(const std::string& program, const std::vector<std::string>& arguments,
                             int door);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_SPAWN_H_
