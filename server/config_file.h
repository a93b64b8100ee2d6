// vgpud.toml. The edge of the server where libraries may throw: nothing of them shows here.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_CONFIG_FILE_H_
#define VGPU_SERVER_CONFIG_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/policy.h"

namespace vgpu::server {

// What stands in the file, not interpreted; the command line has the same words.
struct ConfigFile {
  std::vector<std::string> listen;  // one unix socket, and any number of addresses on networks
  std::string driver, devices, memory_default, headroom, log_level, socket_mode, worker_users,
      metrics, server_key, authorized_keys, scheduler, mps_control;
  std::optional<int64_t> workers_ahead, guest_devices, network_grace;
  std::optional<bool> require_encryption, tenants_reach_host_memory;
  Policy policy;
};

// Reads the file and the token file that it names. The text of a failure begins with file and line.
Result<ConfigFile> read_config_file(const std::string& path);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_CONFIG_FILE_H_
