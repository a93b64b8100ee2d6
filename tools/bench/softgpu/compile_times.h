// What a process waits for at the first launch of a kernel.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_BENCH_SOFTGPU_COMPILE_TIMES_H_
#define VGPU_TOOLS_BENCH_SOFTGPU_COMPILE_TIMES_H_

#include <string>

namespace vgpu::bench {

// Without and with a filled cache.
struct SortTimes {
  double cold_ms, cached_ms;
};

// Each in fresh processes, with a cache folder of its own; the least of `rounds`. Throw
// std::runtime_error when such a process fails.
double least_small_ms(int rounds);
SortTimes least_sort_ms(int rounds);
// What such a process does: prints the milliseconds of one first launch. `what` = small or sort.
int run_child(const std::string& what);

}  // namespace vgpu::bench

#endif  // VGPU_TOOLS_BENCH_SOFTGPU_COMPILE_TIMES_H_
