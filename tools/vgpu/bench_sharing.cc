// The course of vgpu bench sharing.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/bench_sharing.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tools/vgpu/demo.h"

namespace vgpu::tools {
namespace {

constexpr int kExitInterrupted = 130;

void say(const std::string& text) {
  std::printf("%s ...\n", text.c_str());
  std::fflush(stdout);
}

class Course {
 public:
  Course(const BenchOptions& options, const Supervisor& supervisor)
      : options_(options), supervisor_(supervisor), places_(find_places()) {
    if (places_.guest_library.empty() || places_.bench_share.empty())
      throw std::runtime_error("guest library or vgpu-bench-share is missing");
    double load = 0;
    if (::getloadavg(&load, 1) == 1) figures_["load_before"] = load;
  }

  void run() {
    say("measuring how fast the device is");
    loops_ = server("fair")->calibrate();
    for (const char* scheduler : {"fair", "fifo", "round-robin"}) {
      say(std::string("guests under --scheduler ") + scheduler);
      const auto bench = server(scheduler);
      bench->shares("shares_3_1", {300, 100});
      bench->shares("shares_70_20_10", {700, 200, 100});
      bench->cap();
      if (std::string(scheduler) == "fair") bench->change();
      bench->latency();
    }
    say("one guest with and without admission, in turns");
    for (const int us : {20, 100, 1000}) compare_alone(us);
    say("guests that attach at once, are idle, are killed");
    const auto bench = server("fair");
    bench->crowd(64);
    bench->kill();
    bench->idle(options_.quick ? 32 : 256);
  }

  int report() {
    const std::vector<BenchRow> rows = judge_sharing(figures_);
    std::printf("\n%s\n%s", bench_table(rows).c_str(), sharing_table(figures_).c_str());
    for (const std::string& problem : problems_) std::printf("not measured: %s\n", problem.c_str());
    if (!options_.json_file.empty()) {
      std::ofstream file(options_.json_file);
      file << bench_json(figures_, rows, problems_);
      if (!file.good()) throw std::runtime_error("cannot write " + options_.json_file);
      std::printf("written: %s\n", options_.json_file.c_str());
    }
    return problems_.empty() ? 0 : 1;
  }

 private:
  std::unique_ptr<SharingBench> server(const std::string& scheduler) {
    auto made = std::make_unique<SharingBench>(options_, supervisor_, places_, scheduler, &figures_,
                                               &problems_);
    made->set_loops(loops_);
    return made;
  }
  // fifo is no admission at all.
  void compare_alone(int kernel_us) {
    std::vector<double> fair, none;
    for (int i = 0; i < (options_.quick ? 1 : 5); ++i) {
      fair.push_back(server("fair")->alone(kernel_us));
      none.push_back(server("fifo")->alone(kernel_us));
    }
    const std::string name = "alone_" + std::to_string(kernel_us) + "_us_";
    figures_["fair." + name + "per_s"] = median(fair);
    figures_["fifo." + name + "per_s"] = median(none);
    figures_[name + "loss_percent"] = 100 * (1 - median(fair) / median(none));
  }

  const BenchOptions& options_;
  const Supervisor& supervisor_;
  const Places places_;
  Figures figures_;
  std::vector<std::string> problems_;
  double loops_ = 0;
};

}  // namespace

int run_sharing_bench(const BenchOptions& options) {
  const Supervisor supervisor;
  try {
    Course course(options, supervisor);
    course.run();
    return course.report();
  } catch (const Interrupted&) {
    std::printf("\ninterrupted: everything is stopped\n");
    return kExitInterrupted;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vgpu bench sharing: %s\n", error.what());
    return 1;
  }
}

}  // namespace vgpu::tools
