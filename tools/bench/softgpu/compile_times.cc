// Fresh processes of this program, with an empty cache and with a filled one.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/softgpu/compile_times.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "tools/bench/softgpu/case.h"

namespace vgpu::bench {
namespace {

// Milliseconds that a child prints. Throws when it fails.
double child_ms(const std::string& what, const std::string& cache) {
  std::error_code error;
  const std::string own = std::filesystem::read_symlink("/proc/self/exe", error).string();
  const std::string command = "VGPU_SOFTGPU_CACHE='" + cache + "' '" + own + "' --child " + what;
  FILE* const pipe = ::popen(command.c_str(), "r");
  double ms = 0;
  const bool read = pipe != nullptr && std::fscanf(pipe, "%lf", &ms) == 1;
  if (pipe == nullptr || ::pclose(pipe) != 0 || !read)
    throw std::runtime_error("the child that times '" + what + "' failed");
  return ms;
}

}  // namespace

double least_small_ms(int rounds) {
  double best = 1e30;
  for (int round = 0; round < rounds; ++round) best = std::min(best, child_ms("small", "off"));
  return best;
}

SortTimes least_sort_ms(int rounds) {
  char folder[] = "/tmp/vgpu-bench-XXXXXX";
  if (::mkdtemp(folder) == nullptr) throw std::runtime_error("no folder for the cache");
  SortTimes best{1e30, 1e30};
  for (int round = 0; round < rounds; ++round) {
    const std::string cache = std::string(folder) + "/" + std::to_string(round);
    best.cold_ms = std::min(best.cold_ms, child_ms("sort", cache));
    best.cached_ms = std::min(best.cached_ms, child_ms("sort", cache));
  }
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return best;
}

int run_child(const std::string& what) {
  std::printf("%.3f\n", what == "sort" ? first_sort_ms() : first_small_kernel_ms());
  return 0;
}

}  // namespace vgpu::bench
