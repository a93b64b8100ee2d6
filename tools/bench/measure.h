// What the bench child measures once a kernel is loaded. Each prints one JSON object.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_BENCH_MEASURE_H_
#define VGPU_TOOLS_BENCH_MEASURE_H_

#include <cstddef>

#include "tools/bench/driver.h"

namespace vgpu::bench {

// `steps` times copy in, launch, copy out, of 1 KiB.
void run_steps(Driver* driver, int steps);

// Launches, round trips, allocations. `scale` multiplies the repetitions.
void measure_calls(Driver* driver, int scale);

// Launches of a graph of kGraphNodes empty kernels, one after the other, beside as many launches
// of the kernel.
inline constexpr int kGraphNodes = 1000;
void measure_graphs(Driver* driver, int scale);
// `launches` of that graph.
void run_graphs(Driver* driver, int launches);

// Copies each way of 64 KiB up to max_bytes, beside memcpy of the same size, taken in turns.
void measure_copies(Driver* driver, int repetitions, size_t max_bytes);

// Addition of vectors of `bytes` in managed memory, and with copies of pageable memory; in turns.
void measure_managed(Driver* driver, int repetitions, size_t bytes);

}  // namespace vgpu::bench

#endif  // VGPU_TOOLS_BENCH_MEASURE_H_
