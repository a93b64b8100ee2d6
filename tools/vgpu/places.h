// Where the parts of vGPU lie: beside this program in a build tree or in an install tree.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_PLACES_H_
#define VGPU_TOOLS_VGPU_PLACES_H_

#include <string>
#include <vector>

namespace vgpu::tools {

//   build tree                       install tree
//   bin/vgpu vgpud vgpu-worker       bin/vgpu vgpud vgpu-worker
//   lib/guest/libcuda.so.1           lib/vgpu/guest/libcuda.so.1
//   lib/router/libcuda.so.1          lib/vgpu/router/libcuda.so.1
//   lib/guest/libvgpu-net.so         lib/vgpu/guest/libvgpu-net.so
//   lib/softgpu/libcuda.so.1         lib/vgpu/softgpu/libcuda.so.1
//   lib/bench/…                      lib/vgpu/bench/…
//   tests/apps/…                     lib/vgpu/apps/…

// Every member is an absolute path; empty when the file is not there.
struct Places {
  std::string guest_library;   // VGPU_GUEST_LIBRARY wins
  std::string router_library;  // for several servers; VGPU_ROUTER_LIBRARY wins
  std::string soft_library;    // VGPU_SOFT_DRIVER wins
  std::string net_plugin;      // beside the guest library; VGPU_NET_PLUGIN wins
  std::string server;          // vgpud
  std::string worker;          // vgpu-worker
  std::string bench_guest;     // vgpu-bench-guest
  std::string bench_share;     // vgpu-bench-share
  std::string null_driver;     // the driver that does nothing, for measuring
  std::string softgpu_bench;   // vgpu-bench-softgpu
  std::string network_bench;   // vgpu-bench-network
};

// Looks beside `program_folder` (that of this program when empty) and into the environment.
Places find_places(const std::string& program_folder = "");

// Where find_places looked for the guest library, for a message.
std::vector<std::string> guest_library_candidates(const std::string& program_folder);

// A demo program by name (or a path, when there is a slash in it); empty when it is not there.
std::string find_app(const std::string& name, const std::string& program_folder = "");

// Folder of the running program, without a slash at the end.
std::string program_folder();

// The folder part of a path; "." when it has none.
std::string folder_of(const std::string& path);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_PLACES_H_
