// vgpu info and vgpu stop.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_INFO_H_
#define VGPU_TOOLS_VGPU_INFO_H_

#include <string>

#include "tools/vgpu/server_query.h"

namespace vgpu::tools {

// Text for people, and the same as JSON.
std::string info_text(const ServerAnswer& answer);
std::string info_json(const ServerAnswer& answer);

// Prints either; 0, or 1 when no server answers (the reason goes to stderr, in JSON to stdout).
int show_info(const std::string& server, bool json);

// Ends the server; with `force` its guests as well.
int stop(const std::string& server, bool force);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_INFO_H_
