// vgpu bench sharing: whether guests get the shares that they were promised, on the software GPU.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_BENCH_SHARING_H_
#define VGPU_TOOLS_VGPU_BENCH_SHARING_H_

#include <memory>
#include <string>
#include <vector>

#include "tools/vgpu/bench.h"
#include "tools/vgpu/private_server.h"

namespace vgpu::tools {

inline constexpr double kBulkMs = 10;   // kernels beside a latency guest
inline constexpr int kTurnsAtOnce = 2;  // the scheduler's window

// What a guest of the bench asks for.
struct ShareGuest {
  std::vector<std::string> arguments;  // of vgpu-bench-share
  std::string weight = "100";
  std::string cap = {};  // percent; empty: none
  std::string priority = "normal";
  std::string memory = "16M";
};

// Guests of one server with one way of scheduling; figures are named "fair.…", "fifo.…" or
// "round-robin.…".
class SharingBench {
 public:
  SharingBench(const BenchOptions& options, const Supervisor& supervisor, const Places& places,
               const std::string& scheduler, Figures* figures, std::vector<std::string>* problems);

  // Loops of a kernel of one millisecond, on a device that nobody else uses.
  double calibrate();
  void set_loops(double loops_per_ms) { loops_per_ms_ = loops_per_ms; }

  // Guests with kernels of different lengths: largest error of a share, and all work done as a
  // part of what the device can do.
  void shares(const std::string& name, const std::vector<unsigned>& weights);
  // A guest with a cap of 30 % beside one without: the windows of a second that are farthest off.
  void cap();
  // Two guests alike; in the middle one gets nine times the weight: how long until it has its
  // share.
  void change();
  // A latency guest alone and beside others.
  void latency();
  // Kernels per second of one guest, by length of kernel in microseconds.
  double alone(int kernel_us);
  // Guests that do nothing: CPU of all, memory of each.
  void idle(int guests);
  // Guests that all come at once, and each add two vectors.
  void crowd(int guests);
  // From SIGKILL until the server can grant the memory again.
  void kill();

 private:
  using Ends = std::vector<double>;  // kernels that ended, by window of 50 ms
  std::unique_ptr<Child> start(const ShareGuest& guest);
  std::string loops_of(double ms) const;
  // When `guests` that are started now will be ready.
  static std::string start_time(int guests);
  Ends ends_of(Child* child, const std::string& what);
  void finish(const std::vector<Child*>& children);
  void put(const std::string& name, double value) { (*figures_)[scheduler_ + "." + name] = value; }
  void problem(const std::string& text) { problems_->push_back(scheduler_ + ": " + text); }
  bool await_lines(const std::vector<std::unique_ptr<Child>>& guests);

  const BenchOptions& options_;
  const Supervisor& supervisor_;
  const Places& places_;
  const std::string scheduler_;
  const int seconds_;
  TemporaryFolder folder_;
  PrivateServer server_;
  Figures* figures_;
  std::vector<std::string>* problems_;
  double loops_per_ms_ = 0;
};

// The table, with FIFO and round robin beside it. (bench_sharing_report.cc)
std::string sharing_table(const Figures& figures);
std::vector<BenchRow> judge_sharing(const Figures& figures);

// As run_bench().
int run_sharing_bench(const BenchOptions& options);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_BENCH_SHARING_H_
