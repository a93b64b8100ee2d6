// vgpu bench: what virtualisation costs here, beside what the same costs raw.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_BENCH_H_
#define VGPU_TOOLS_VGPU_BENCH_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vgpu::tools {

struct BenchOptions {
  std::string json_file;
  bool quick = false;
  bool softgpu = false;  // vgpu-bench-softgpu instead
  bool network = false;  // vgpu-bench-network instead
  bool sharing = false;  // guests that share a device instead (bench_sharing.h)
};

// Named numbers, in the units that their names end with (ns, per_s, bytes_per_s, trips).
using Figures = std::map<std::string, double>;

// One line of the table.
struct BenchRow {
  std::string what, aim, measured, raw, verdict;
};

// --- raw costs, measured in this process with two threads (bench_raw.cc)
// Adds raw_ring_records_per_s, raw_ring_cpu_ns, raw_futex_busy_ns, raw_futex_idle_ns and
// raw_spin_ns. `idle` = both sides slept for kIdleMs before each exchange.
inline constexpr int kIdleMs = 2;
void measure_raw(bool quick, Figures* figures);

// --- ours: children under private servers (bench_guests.cc)
// Adds what each child prints, its names led by "soft." or "null." for the driver it ran on; what
// could not be measured is missing and said in *problems.
class Supervisor;
void measure_guests(const BenchOptions& options, const Supervisor& supervisor, Figures* figures,
                    std::vector<std::string>* problems);

// --- what it means (bench_report.cc)
std::vector<BenchRow> judge_figures(const Figures& figures);
std::string bench_table(const std::vector<BenchRow>& rows);
std::string bench_json(const Figures& figures, const std::vector<BenchRow>& rows,
                       const std::vector<std::string>& problems);

// 0: everything could be measured (whether or not the aims are met); 1: not; 130: interrupted.
int run_bench(const BenchOptions& options);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_BENCH_H_
