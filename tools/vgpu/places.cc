// Finding what lies beside this program.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/places.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/env.h"
#include "protocol/transport/net_plugin.h"

namespace vgpu::tools {
namespace {

std::string absolute(const std::string& path) {
  char real[PATH_MAX];
  return ::realpath(path.c_str(), real) != nullptr ? real : path;
}

// The first that can be read, with its folder made absolute and its own name kept: a link called
// libcuda.so.1 must stay so, since the loader goes by that name.
std::string first_readable(const std::vector<std::string>& candidates) {
  for (const std::string& path : candidates) {
    if (::access(path.c_str(), R_OK) != 0) continue;
    return absolute(folder_of(path)) + path.substr(path.rfind('/'));
  }
  return "";
}

std::string given_or(const char* variable, const std::vector<std::string>& candidates) {
  if (auto given = env_text(variable)) return std::string(*given);
  return first_readable(candidates);
}

std::vector<std::string> in_library_folder(const std::string& folder, const std::string& file) {
  return {folder + "/../lib/" + file, folder + "/../lib/vgpu/" + file};
}

}  // namespace

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string program_folder() { return folder_of(absolute("/proc/self/exe")); }

std::vector<std::string> guest_library_candidates(const std::string& folder) {
  return in_library_folder(folder, "guest/libcuda.so.1");
}

Places find_places(const std::string& given_folder) {
  const std::string folder = given_folder.empty() ? program_folder() : given_folder;
  Places places;
  places.guest_library = given_or("VGPU_GUEST_LIBRARY", guest_library_candidates(folder));
  places.soft_library =
      given_or("VGPU_SOFT_DRIVER", in_library_folder(folder, "softgpu/libcuda.so.1"));
  places.router_library =
      given_or("VGPU_ROUTER_LIBRARY", in_library_folder(folder, "router/libcuda.so.1"));
  places.net_plugin = given_or("VGPU_NET_PLUGIN",
                               {folder_of(places.guest_library) + "/" + protocol::kNetPluginFile});
  places.server = first_readable({folder + "/vgpud"});
  places.worker = first_readable({folder + "/vgpu-worker"});
  places.bench_share = first_readable(in_library_folder(folder, "bench/vgpu-bench-share"));
  places.bench_guest = first_readable(in_library_folder(folder, "bench/vgpu-bench-guest"));
  places.null_driver = first_readable(in_library_folder(folder, "bench/libcuda-null.so"));
  places.softgpu_bench = first_readable(in_library_folder(folder, "bench/vgpu-bench-softgpu"));
  places.network_bench = first_readable(in_library_folder(folder, "bench/vgpu-bench-network"));
  return places;
}

std::string find_app(const std::string& name, const std::string& given_folder) {
  if (name.find('/') != std::string::npos) {
    return ::access(name.c_str(), X_OK) == 0 ? absolute(name) : "";
  }
  const std::string folder = given_folder.empty() ? program_folder() : given_folder;
  return first_readable({folder + "/../tests/apps/" + name, folder + "/../lib/vgpu/apps/" + name});
}

}  // namespace vgpu::tools
