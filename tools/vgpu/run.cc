// From options to exec.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/run.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/env.h"
#include "tools/vgpu/environment.h"
#include "tools/vgpu/places.h"
#include "tools/vgpu/server_query.h"

namespace vgpu::tools {
namespace {

int complain(int code, const std::string& problem, const std::string& advice) {
  std::fprintf(stderr, "vgpu run: %s\n", problem.c_str());
  if (!advice.empty()) std::fprintf(stderr, "vgpu run: %s\n", advice.c_str());
  return code;
}

std::string absolute_path(const std::string& path) {
  char folder[PATH_MAX];
  if (path.starts_with('/') || ::getcwd(folder, sizeof(folder)) == nullptr) return path;
  return std::string(folder) + "/" + path;
}

// What was asked for, by option or environment: one server, or several with commas between.
std::string servers_of(const RunOptions& options) {
  if (!options.server.empty()) return options.server;
  return std::string(env_text("VGPU_SERVER").value_or(""));
}

bool are_several(const std::string& servers) { return servers.find(',') != std::string::npos; }

// 0, or the exit code when the guest could not reach its server, or one of them.
int check_servers(const std::string& servers, std::string* addresses) {
  addresses->clear();
  for (size_t at = 0; at <= servers.size();) {
    const size_t end = std::min(servers.find(',', at), servers.size());
    const ServerAnswer answer = query_server(servers.substr(at, end - at));
    if (answer.state != ServerState::kAnswers)
      return complain(kExitOwnFailure, problem_text(answer), advice_text(answer));
    *addresses += (at == 0 ? "" : ",") + answer.address;
    at = end + 1;
  }
  return 0;
}

// What the router could not do as one server does.
int check_several(const RunOptions& options, const Places& places) {
  if (places.router_library.empty())
    return complain(kExitOwnFailure, "the library for several servers is not beside this program",
                    "set VGPU_ROUTER_LIBRARY to router/libcuda.so.1, or install vGPU completely");
  if (!options.devices.empty())
    return complain(kExitOwnFailure, "--devices chooses among one server's devices",
                    "among those of several, CUDA_VISIBLE_DEVICES chooses");
  return 0;
}

int execute(const std::string& file, const RunOptions& options, const Environment& environment) {
  std::vector<std::string> lines = environment_lines(environment);
  std::vector<char*> arguments, variables;
  for (const std::string& text : options.command) {
    arguments.push_back(const_cast<char*>(text.c_str()));
  }
  for (std::string& text : lines) variables.push_back(text.data());
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  ::execve(file.c_str(), arguments.data(), variables.data());
  int error = errno;
  if (error == ENOEXEC) {  // a script without #!, which execvp gives to the shell
    arguments.insert(arguments.begin(), const_cast<char*>("sh"));
    arguments[1] = const_cast<char*>(file.c_str());
    ::execve("/bin/sh", arguments.data(), variables.data());
  }
  return complain(error == ENOENT ? kExitNotFound : kExitNotExecutable,
                  "cannot execute " + file + ": " + std::strerror(error), "");
}

}  // namespace

int run_program(const RunOptions& options) {
  const Places places = find_places();
  const std::string& library = options.direct ? places.soft_library : places.guest_library;
  if (library.empty()) {
    const char* what = options.direct ? "the software GPU" : "the guest library";
    return complain(kExitOwnFailure, std::string(what) + " is not beside this program",
                    std::string("set ") +
                        (options.direct ? "VGPU_SOFT_DRIVER" : "VGPU_GUEST_LIBRARY") +
                        " to its libcuda.so.1, or install vGPU completely");
  }
  const char* path = std::getenv("PATH");
  bool denied = false;
  const std::string file =
      find_executable(options.command.front(), path != nullptr ? path : "", &denied);
  if (file.empty() && denied) {
    return complain(kExitNotExecutable, options.command.front() + " is not executable", "");
  }
  if (file.empty()) {
    return complain(kExitNotFound, options.command.front() + ": no such program", "");
  }
  if (const std::string obstacle = preload_obstacle(file); !obstacle.empty()) {
    return complain(kExitNotExecutable, file + " " + obstacle, "");
  }
  if (options.direct && !options.devices.empty()) {
    return complain(kExitOwnFailure, "--devices chooses among a server's devices",
                    "with --direct set VGPU_SOFTGPU_DEVICES and CUDA_VISIBLE_DEVICES instead");
  }
  if (options.direct && !(options.profile + options.share + options.cap + options.priority).empty())
    return complain(kExitOwnFailure,
                    "--profile, --share, --cap and --priority are a server's to give",
                    "with --direct, --kernel-profile FILE writes what kernels did");
  const std::string of_guests =
      options.memory + options.name + options.server + options.stats + options.token_file;
  if (options.direct && !of_guests.empty())
    return complain(kExitOwnFailure,
                    "--mem, --name, --server, --stats and --token-file are for guests",
                    "with --direct VGPU_SOFTGPU_MEMORY says how much memory the device has");
  if (options.direct) {
    Environment environment = direct_environment(current_environment(), places);
    if (!options.kernel_profile.empty())
      environment["VGPU_SOFTGPU_PROFILE"] = absolute_path(options.kernel_profile);
    return execute(file, options, environment);
  }
  GuestSettings settings;
  settings.server = options.server;
  const std::string servers = servers_of(options);
  if (are_several(servers)) {
    if (int code = check_several(options, places); code != 0) return code;
  }
  if (options.check) {
    if (int code = check_servers(servers, &settings.server); code != 0) return code;
  }
  if (!options.memory.empty()) settings.memory = std::to_string(*parse_size(options.memory));
  settings.name = options.name;
  settings.devices = options.devices;
  settings.profile = options.profile;
  settings.share = options.share;
  settings.cap = options.cap;
  settings.priority = options.priority;
  if (!options.token_file.empty()) settings.token_file = absolute_path(options.token_file);
  settings.stats = options.stats == "1" ? "1" : absolute_path(options.stats);
  if (options.stats.empty()) settings.stats.clear();
  return execute(file, options, guest_environment(current_environment(), settings, places));
}

}  // namespace vgpu::tools
