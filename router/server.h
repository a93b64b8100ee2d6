// One server of the guest's: a copy of the guest library that is attached to it, or will be.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_ROUTER_SERVER_H_
#define VGPU_ROUTER_SERVER_H_

#include <cuda.h>

#include <string>

#include "api/server_library.h"
#include "base/status.h"
#include "server_table.h"

namespace vgpu::router {

// Lasts as long as the process. Written before it is published, read only afterwards.
struct Server {
  uint32_t number = 0;
  std::string address;
  ServerTable driver;
  const ServerLibrary* library = nullptr;
  ServerRanges ranges = {};  // once attached
  int devices = 0;           // once attached: all that it has

  // Whether the address lies in what only this server has. Others' may still be known to it.
  bool owns(uint64_t at) const {
    return at - ranges.device_base < ranges.device_bytes ||
           at - ranges.host_base < ranges.host_bytes;
  }
};

// Loads a copy of the library `file` for server->number and tells it server->address.
Status load_copy(const std::string& file, Server* server);

}  // namespace vgpu::router

#endif  // VGPU_ROUTER_SERVER_H_
