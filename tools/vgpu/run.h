// vgpu run: becomes the program, as a guest.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_RUN_H_
#define VGPU_TOOLS_VGPU_RUN_H_

#include <string>
#include <vector>

namespace vgpu::tools {

// Exit codes of our own, as env, nice and timeout have them.
inline constexpr int kExitOwnFailure = 125;  // vgpu itself could not do its part
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

struct RunOptions {
  std::string server;  // empty: VGPU_SERVER or the default place
  std::string memory;  // a size as the user gave it
  std::string devices;
  std::string name;
  std::string profile;               // of the server's configuration
  std::string share, cap, priority;  // as the user gave them, checked
  std::string token_file;
  std::string stats;           // empty: none; "1": stderr; else a file
  std::string kernel_profile;  // empty: none; else a file; only with `direct`
  bool direct = false;         // preload the software GPU itself
  bool check = true;           // ask the server first
  std::vector<std::string> command;
};

// Replaces this process by options.command, so that signals and the exit code are the program's.
// Returns only when that fails, with the exit code; the reason is on stderr then.
int run_program(const RunOptions& options);

// The file that execvp would take for `command`; empty when there is none. `denied` is set when one
// is there that may not be executed.
std::string find_executable(const std::string& command, const std::string& path, bool* denied);

// Why nothing can be preloaded into this program (set-user-ID, statically linked, another machine);
// empty when it can, and for scripts.
std::string preload_obstacle(const std::string& file);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_RUN_H_
