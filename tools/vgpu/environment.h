// The environment that makes a program a guest, or puts it directly on the software GPU.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_ENVIRONMENT_H_
#define VGPU_TOOLS_VGPU_ENVIRONMENT_H_

#include <map>
#include <string>
#include <vector>

#include "tools/vgpu/places.h"

namespace vgpu::tools {

using Environment = std::map<std::string, std::string>;

// This process's environment.
Environment current_environment();

// NAME=value lines, as execve wants them.
std::vector<std::string> environment_lines(const Environment& environment);

// What a guest is told. Empty members leave the variable as it is.
struct GuestSettings {
  std::string server;                // VGPU_SERVER
  std::string memory;                // VGPU_MEM, in bytes
  std::string name;                  // VGPU_NAME
  std::string stats;                 // VGPU_STATS: "1" = stderr, else a file
  std::string devices;               // VGPU_DEVICES
  std::string profile;               // VGPU_PROFILE
  std::string share, cap, priority;  // VGPU_SHARE, VGPU_CAP, VGPU_PRIORITY
  std::string token_file;            // VGPU_TOKEN_FILE
};

// `library` first in LD_PRELOAD, its folder first in LD_LIBRARY_PATH. What was there stays behind
// it, except vGPU's own libraries: two libcuda.so.1 in one process would be one too many.
void preload(Environment* environment, const std::string& library, const Places& places);

// The environment of a guest, of a program directly on the software GPU, and of a server (none of
// our libraries preloaded), each made from `base`.
Environment guest_environment(Environment base, const GuestSettings& settings,
                              const Places& places);
Environment direct_environment(Environment base, const Places& places);
Environment server_environment(Environment base, const Places& places);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_ENVIRONMENT_H_
