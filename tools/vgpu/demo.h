// vgpu demo: two programs directly, as guests, and as two guests at once.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_DEMO_H_
#define VGPU_TOOLS_VGPU_DEMO_H_

#include <string>
#include <vector>

#include "tools/vgpu/stats.h"

namespace vgpu::tools {

struct DemoOptions {
  int rounds = 3;
  int timeout_s = 120;
  bool keep = false;
  std::vector<std::string> programs;  // empty: vecadd and matmul
};

// What was measured of one program; one entry for each round.
struct DemoProgram {
  std::string name, file;
  std::vector<double> direct_ns, guest_ns;                    // alone
  std::vector<double> direct_together_ns, guest_together_ns;  // both programs at once
  GuestStats stats;                                           // of the last guest run alone
  std::string output;  // of the first direct run; all others must be equal
};

// Middle value; 0 of none.
double median(std::vector<double> values);

// The table of the demo.
std::string demo_table(const std::vector<DemoProgram>& programs);

// Runs everything. 0 when every run succeeded with equal output; 1 when not; 130 when interrupted.
int run_demo(const DemoOptions& options);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_DEMO_H_
