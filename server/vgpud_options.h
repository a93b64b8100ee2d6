// vgpud's command line and configuration file.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_VGPUD_OPTIONS_H_
#define VGPU_SERVER_VGPUD_OPTIONS_H_

#include <optional>

#include "server/daemon.h"

namespace vgpu::server {

// Command line over configuration file over defaults. Empty: *exit_code is what to end with (help
// was asked for, or something was wrong and has been said on stderr).
std::optional<DaemonOptions> read_options(int argc, char** argv, int* exit_code);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_VGPUD_OPTIONS_H_
