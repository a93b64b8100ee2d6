// What a worker gives up before it reads the first byte of a guest.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_SANDBOX_H_
#define VGPU_SERVER_SANDBOX_H_

#include "base/status.h"
#include "server/worker_link.h"

namespace vgpu::server {

inline constexpr unsigned kWorkerDescriptorsMax = 16384;

// For all threads of the process, for good: no new privileges, no core dumps, few descriptors, and
// a system call filter. With the software GPU the filter lists what is allowed (files only for
// reading, sockets only AF_UNIX, no other programs); everything else fails with EPERM. A vendor's
// driver needs what nobody outside knows, so there the filter lists what is forbidden. Fails when
// the kernel refuses: then the worker must not go on.
Status enter_sandbox(DriverKind driver);

// Before any thread exists: closes every descriptor from `first` on but `keep`.
void close_descriptors(int first, int keep);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_SANDBOX_H_
