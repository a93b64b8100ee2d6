// What a worker gives up before it reads the first byte of a guest.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_SANDBOX_H_
#define VGPU_SERVER_SANDBOX_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "server/worker_link.h"

namespace vgpu::server {

inline constexpr unsigned kWorkerDescriptorsMax = 16384;
inline constexpr unsigned kWorkerThreadsMax = 4096;  // where it has a user of its own
inline constexpr unsigned kWorkersOfUserMax = 64;    // more than the 48 clients of an MPS server

struct Sandbox {
  DriverKind driver = DriverKind::kSoft;
  uid_t user = 0;  // whose rights it keeps; 0: those that it has
  // With the software GPU: what may be read, beside the system's libraries and this process's own
  // state.
  std::vector<std::string> readable;
  bool shares_user = false;  // with other workers of its tenant
};

// For all threads of the process, for good: another user, no new privileges, no core dumps, few
// descriptors, a Landlock domain where the kernel has it, and a system call filter. With the
// software GPU the filter lists what is allowed (files only for reading, sockets only AF_UNIX and
// none that connects, no other programs); everything else fails with EPERM. A vendor's driver needs
// what nobody outside knows, so there the filter lists what is forbidden, and threads that the
// driver has started before are in no domain. Fails when the kernel refuses: then the worker must
// not go on.
Status enter_sandbox(const Sandbox& sandbox);

// Before any thread exists: closes every descriptor from `first` on.
void close_descriptors(int first);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_SANDBOX_H_
