// What a remote guest waits for, counted: a program with keys, a gate and a server of our own.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_BENCH_NETWORK_H_
#define VGPU_TOOLS_VGPU_BENCH_NETWORK_H_

#include <string>
#include <vector>

#include "tools/vgpu/places.h"

namespace vgpu::tools {

struct CountedRow {
  std::string what, aim;
  double trips = 0;
};

// Round trips of a start and of a steady step, on the software GPU. Throws std::runtime_error when
// something does not run, Interrupted.
std::vector<CountedRow> count_remote_trips(const Places& places);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_BENCH_NETWORK_H_
