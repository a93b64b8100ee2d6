// The course of vgpu bench.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/bench.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "tools/vgpu/bench_network.h"
#include "tools/vgpu/bench_sharing.h"
#include "tools/vgpu/child.h"
#include "tools/vgpu/places.h"

namespace vgpu::tools {
namespace {

constexpr int kExitInterrupted = 130;

constexpr double kQuietLoad = 0.3;  // runnable threads per core, before we start

// Others that use the CPUs make every figure worse: said before and kept with the figures.
void note_load(Figures* figures) {
  double load = 0;
  if (::getloadavg(&load, 1) != 1) return;
  (*figures)["load_before"] = load;
  if (load / std::thread::hardware_concurrency() <= kQuietLoad) return;
  std::printf(
      "warning: this machine is busy (load average %.1f on %u cores): figures will be worse\n",
      load, std::thread::hardware_concurrency());
}

int measure(const BenchOptions& options, const Supervisor& supervisor) {
  Figures figures;
  std::vector<std::string> problems;
  note_load(&figures);
  measure_guests(options, supervisor, &figures, &problems);
  std::printf("measuring raw ring, futex and spin ...\n");
  std::fflush(stdout);
  measure_raw(options.quick, &figures);
  const std::vector<BenchRow> rows = judge_figures(figures);
  std::printf("\n%s", bench_table(rows).c_str());
  for (const std::string& problem : problems) std::printf("not measured: %s\n", problem.c_str());
  if (!options.json_file.empty()) {
    std::ofstream file(options.json_file);
    file << bench_json(figures, rows, problems);
    if (!file.good()) throw std::runtime_error("cannot write " + options.json_file);
    std::printf("written: %s\n", options.json_file.c_str());
  }
  return problems.empty() ? 0 : 1;
}

// Becomes the other program; returns only when that fails.
int become(const std::string& program, const BenchOptions& options,
           const std::vector<std::string>& more = {}) {
  std::vector<const char*> arguments{program.c_str()};
  for (const std::string& word : more) arguments.push_back(word.c_str());
  if (options.quick) arguments.push_back("--quick");
  if (!options.json_file.empty())
    arguments.insert(arguments.end(), {"--json", options.json_file.c_str()});
  arguments.push_back(nullptr);
  ::execv(arguments[0], const_cast<char* const*>(arguments.data()));
  std::fprintf(stderr, "vgpu bench: %s: %s\n", arguments[0], std::strerror(errno));
  return 1;
}

int become_softgpu_bench(const BenchOptions& options) {
  const Places places = find_places();
  if (places.softgpu_bench.empty() || places.soft_library.empty()) {
    std::fprintf(stderr,
                 "vgpu bench: vgpu-bench-softgpu is not beside this program; it is built where "
                 "CMake finds nvcc\n");
    return 1;
  }
  ::setenv("VGPU_BENCH_LIBCUDA", places.soft_library.c_str(), 1);
  return become(places.softgpu_bench, options);
}

int become_network_bench(const BenchOptions& options) {
  const Places places = find_places();
  if (places.network_bench.empty() || places.bench_guest.empty()) {
    std::fprintf(stderr, "vgpu bench: vgpu-bench-network is not beside this program\n");
    return 1;
  }
  std::vector<std::string> counted;
  for (const CountedRow& row : count_remote_trips(places))
    counted.insert(counted.end(), {"--row", row.what, row.aim, std::to_string(row.trips)});
  return become(places.network_bench, options, counted);
}

}  // namespace

int run_bench(const BenchOptions& options) {
  if (options.softgpu) return become_softgpu_bench(options);
  if (options.sharing) return run_sharing_bench(options);
  try {
    if (options.network) return become_network_bench(options);
    const Supervisor supervisor;
    return measure(options, supervisor);
  } catch (const Interrupted&) {
    std::printf("\ninterrupted: everything is stopped\n");
    return kExitInterrupted;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vgpu bench: %s\n", error.what());
    return 1;
  }
}

}  // namespace vgpu::tools
