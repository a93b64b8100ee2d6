// vgpu top: who uses what of the devices, live.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_TOP_H_
#define VGPU_TOOLS_VGPU_TOP_H_

#include <string>

namespace vgpu::tools {

struct TopOptions {
  double interval_s = 1;
  unsigned count = 0;  // pictures; 0 = until it is ended
  bool json = false;   // a JSON object a line
};

// On a terminal a picture that keys change; else, or with `json`, lines. 0, or 1 when no server
// answers.
int show_top(const std::string& server, const TopOptions& options);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_TOP_H_
