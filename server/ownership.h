// Whose guests a process may ask about, and how it numbers them.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_OWNERSHIP_H_
#define VGPU_SERVER_OWNERSHIP_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace vgpu::server {

// How a process is numbered. Read from /proc, so it means the process that has `pid` now.
struct PidView {
  // The id in its own, innermost namespace; 0: the process is gone.
  pid_t inner = 0;
  int depth = 0;       // namespaces that number it, as far as the reader sees: 1 = the reader's own
  uint64_t space = 0;  // inode of its namespace; 0: not readable for this user
};
PidView view_pid(pid_t pid);

// What NSpid of a /proc/PID/status says; inner and depth only.
PidView parse_status(const std::string& status);

// Whether both processes live in the same namespace. When a namespace cannot be read, only those
// are known to share one that no inner namespace numbers.
bool same_space(const PidView& a, const PidView& b);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_OWNERSHIP_H_
