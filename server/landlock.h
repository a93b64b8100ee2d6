// Landlock: files and processes that a worker cannot reach, whatever its user may.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_LANDLOCK_H_
#define VGPU_SERVER_LANDLOCK_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace vgpu::server {

// The calling thread and all that it starts later form a domain of their own: they cannot trace, or
// read the memory of, any process outside it, nor reach abstract sockets or send signals there
// (where the kernel knows how). `readable`: when not empty, files and folders are opened only at or
// under these paths; such as do not exist are left out. Needs no-new-privileges. kNotSupported: a
// kernel without it.
Status enter_domain(const std::vector<std::string>& readable);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_LANDLOCK_H_
