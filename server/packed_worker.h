// A worker for several guests of one tenant, in one process and one context for each device.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_PACKED_WORKER_H_
#define VGPU_SERVER_PACKED_WORKER_H_

#include <string>

#include "server/attach.h"
#include "server/driver_choice.h"

namespace vgpu::server {

// Guests at once in one worker: as many parts as each address range is cut into.
inline constexpr uint32_t kPackedGuestsMax = 16;
// Descriptors that come with each: connection, board, bell; vgpud's socket for it, its page, its
// door.
inline constexpr size_t kPackedDescriptors = 6;

struct PackedOptions {
  const DriverChoice* driver = nullptr;
  std::string devices;     // as Devices::open() takes them
  uint64_t launch_ms = 0;  // how long a kernel may run; 0: for ever
  uid_t server_user = 0;
};

// The process: serves the guests that come over vgpud's socket until that is closed, and then those
// that are there until the last of them has gone. Returns the exit code.
int serve_packed(const PackedOptions& options, int control);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_PACKED_WORKER_H_
