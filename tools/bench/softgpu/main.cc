// vgpu-bench-softgpu: CUDA kernels on the software GPU beside the same in C++.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/env.h"
#include "tools/bench/softgpu/case.h"
#include "tools/bench/softgpu/compile_times.h"
#include "tools/bench/softgpu/reference.h"
#include "tools/vgpu/table.h"

namespace vgpu::bench {
namespace {

struct Options {
  bool quick = false;
  std::string json_file, only, child;
  int rounds = 0;
};

struct Row {
  std::string what, cpp, ours, ratio, aim, verdict;
};

class Report {
 public:
  void ratio(const Case& item, double cpp_ms, double our_ms, const std::string& problem) {
    const double ratio = cpp_ms / our_ms;
    std::string verdict = ratio >= item.aim ? "met" : "missed";
    if (!problem.empty()) verdict = "WRONG: " + problem;
    wrong_ = wrong_ || !problem.empty();
    rows_.push_back({item.name, text(cpp_ms), text(our_ms), tools::number_text(ratio, 2),
                     ">= " + tools::number_text(item.aim, 1), verdict});
    json_.push_back({{"kernel", item.name},
                     {"cpp_ms", cpp_ms},
                     {"ours_ms", our_ms},
                     {"ratio", ratio},
                     {"aim", item.aim},
                     {"met", problem.empty() && ratio >= item.aim},
                     {"correct", problem.empty()}});
  }
  void at_most(const std::string& what, double ms, double aim_ms) {
    rows_.push_back(
        {what, "", text(ms), "", "<= " + text(aim_ms), ms <= aim_ms ? "met" : "missed"});
    json_.push_back({{"kernel", what}, {"ours_ms", ms}, {"aim_ms", aim_ms}, {"met", ms <= aim_ms}});
  }
  void failed(const std::string& what, const std::string& why) {
    rows_.push_back({what, "", "", "", "", "FAILS: " + why});
    json_.push_back({{"kernel", what}, {"failure", why}, {"met", false}, {"correct", false}});
    wrong_ = true;
  }
  void print() const {
    tools::Table table({{"kernel", tools::Table::Align::kLeft},
                        {"C++"},
                        {"ours"},
                        {"C++/ours"},
                        {"aim"},
                        {"aim is", tools::Table::Align::kLeft}});
    for (const Row& row : rows_)
      table.add({row.what, row.cpp, row.ours, row.ratio, row.aim, row.verdict});
    std::printf("%s", table.text().c_str());
  }
  const nlohmann::ordered_json& json() const { return json_; }
  bool wrong() const { return wrong_; }

 private:
  static std::string text(double ms) { return tools::duration_text(ms * 1e6); }
  std::vector<Row> rows_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
  bool wrong_ = false;
};

double elapsed_ms(const std::function<void()>& body) {
  const auto began = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began)
      .count();
}

// Both sides in turns, the best of each: whoever else uses the machine disturbs both alike.
void measure(const Case& item, int rounds, Report* report) try {
  item.cpp();
  item.ours();
  const std::string problem = item.check();
  double cpp = 1e30, ours = 1e30;
  for (int round = 0; round < rounds; ++round) {
    cpp = std::min(cpp, elapsed_ms(item.cpp));
    ours = std::min(ours, elapsed_ms(item.ours));
  }
  report->ratio(item, cpp, ours, problem);
  std::fprintf(stderr, ".");
} catch (const std::exception& error) {
  report->failed(item.name, error.what());
}

void measure_latency(bool quick, Report* report) try {
  const LaunchTime launch = measure_launch(quick ? 500 : 5000);
  report->at_most("empty kernel, submit to complete, median", launch.median_us / 1000, 0.010);
  report->at_most("first launch of a small kernel, no cache", least_small_ms(quick ? 1 : 3), 20);
  const SortTimes sort = least_sort_ms(quick ? 1 : 3);
  report->at_most("first thrust::sort, no cache", sort.cold_ms, 3000);
  report->at_most("first thrust::sort, from the disk cache", sort.cached_ms, 200);
} catch (const std::exception& error) {
  report->failed("first launches", error.what());
}

// The library that a process finds as libcuda.so.1 later is the one that it has already.
bool load_software_gpu() {
  std::string path;
  if (const auto named = env_text("VGPU_BENCH_LIBCUDA")) {
    path = *named;
  } else {
    std::error_code error;
    const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
    path = (own.parent_path().parent_path() / "softgpu" / "libcuda.so.1").string();
  }
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return true;
  std::fprintf(stderr, "vgpu-bench-softgpu: %s\n", dlerror());
  return false;
}

int run(const Options& options) {
  const unsigned threads = static_cast<unsigned>(
      std::max<int64_t>(1, env_integer("VGPU_SOFTGPU_SMS", std::thread::hardware_concurrency())));
  reference::use_threads(threads);
  const size_t scale = options.quick ? 16 : 1;
  const int rounds = options.rounds > 0 ? options.rounds : options.quick ? 3 : 9;
  Cases cases;
  for (auto* add :
       {add_stream_cases, add_block_cases, add_compute_cases, add_sparse_cases, add_sort_cases}) {
    add(&cases, scale);
  }
  Report report;
  for (const Case& item : cases) {
    if (item.name.find(options.only) == std::string::npos) continue;
    measure(item, item.name.find("sort") != std::string::npos ? (rounds + 1) / 2 : rounds, &report);
  }
  if (options.only.empty()) measure_latency(options.quick, &report);
  std::fprintf(stderr, "\n");
  report.print();
  if (!options.json_file.empty()) {
    double load = 0;
    (void)::getloadavg(&load, 1);
    std::ofstream file(options.json_file);
    file << nlohmann::ordered_json{{"version", VGPU_VERSION}, {"threads", threads},
                                   {"quick", options.quick},  {"rounds", rounds},
                                   {"load_after", load},      {"rows", report.json()}}
                .dump(2)
         << "\n";
    if (!file.good()) {
      std::fprintf(stderr, "cannot write %s\n", options.json_file.c_str());
      return 1;
    }
  }
  return report.wrong() ? 1 : 0;
}

}  // namespace
}  // namespace vgpu::bench

int main(int argc, char** argv) {
  vgpu::bench::Options options;
  CLI::App app("CUDA kernels on the software GPU beside the same in C++");
  app.add_flag("--quick", options.quick, "Small sizes, few rounds");
  app.add_option("--json", options.json_file, "Also write the figures to this file");
  app.add_option("--only", options.only, "Only kernels whose name contains this");
  app.add_option("--rounds", options.rounds, "Measure each this many times (default 9, quick 3)");
  app.add_option("--child", options.child, "Internal: time one first launch")->group("");
  CLI11_PARSE(app, argc, argv);
  if (!vgpu::bench::load_software_gpu()) return 2;
  try {
    return options.child.empty() ? vgpu::bench::run(options)
                                 : vgpu::bench::run_child(options.child);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vgpu-bench-softgpu: %s\n", error.what());
    return 1;
  }
}
