// vgpud: the server that guests attach to.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/descriptor_limit.h"
#include "server/daemon.h"
#include "server/driver_choice.h"
#include "server/log.h"
#include "server/vgpud_options.h"

namespace vgpu::server {
namespace {

int run(int argc, char** argv) {
  int exit_code = 0;
  std::optional<DaemonOptions> options = read_options(argc, argv, &exit_code);
  if (!options) return exit_code;
  // Under the guest library the server would become a guest of itself.
  if (const std::string library = guest_library_in_environment(); !library.empty()) {
    std::fprintf(stderr,
                 "vgpud: refusing to start: LD_PRELOAD or LD_LIBRARY_PATH brings in vGPU's guest "
                 "library %s; the server needs a real driver. Unset it for the server.\n",
                 library.c_str());
    return 2;
  }
  Level level = Level::kInfo;
  parse_level(options->log_level, &level);
  open_log("vgpud", level);
  raise_descriptor_limit();  // each guest takes some
  Result<EventLoop> loop = EventLoop::create();
  if (!loop.ok()) {
    log(Level::kError, "cannot start: %s", loop.status().to_string().c_str());
    return 1;
  }
  return Daemon(std::move(*options), std::move(*loop)).run();
}

}  // namespace
}  // namespace vgpu::server

int main(int argc, char** argv) { return vgpu::server::run(argc, argv); }
