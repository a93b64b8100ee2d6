// The demo's course.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/demo.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "tools/vgpu/child.h"
#include "tools/vgpu/private_server.h"
#include "tools/vgpu/server_query.h"
#include "tools/vgpu/table.h"

namespace vgpu::tools {
namespace {

constexpr int kExitInterrupted = 130;

// One demo in progress: its server, programs and what went wrong.
class Demo {
 public:
  Demo(const DemoOptions& options, const Supervisor& supervisor)
      : options_(options), supervisor_(supervisor), places_(find_places()) {}

  int run();

 private:
  void find_programs();
  void start_server();
  void run_rounds();
  Environment direct() const { return direct_environment(current_environment(), places_); }
  Environment guest(const DemoProgram& program) const;
  std::string stats_file(const DemoProgram& program) const {
    return folder_.path() + "/" + program.name + ".json";
  }
  // Runs the programs at once in the given environments; adds wall times where `into` says.
  void measure(const char* how, const std::vector<DemoProgram*>& programs,
               const std::function<Environment(const DemoProgram&)>& environment,
               std::vector<double> DemoProgram::*into);
  void check(const char* how, DemoProgram* program, const ChildOutcome& outcome);
  void step(const std::string& text);

  const DemoOptions& options_;
  const Supervisor& supervisor_;
  Places places_;
  TemporaryFolder folder_;
  std::unique_ptr<PrivateServer> server_;
  std::vector<DemoProgram> programs_;
  int failures_ = 0;
  uint64_t began_ns_ = monotonic_ns();
};

void Demo::step(const std::string& text) {
  std::printf("[%5.1f s] %s\n", static_cast<double>(monotonic_ns() - began_ns_) / 1e9,
              text.c_str());
  std::fflush(stdout);
}

void Demo::find_programs() {
  std::vector<std::string> names = options_.programs;
  if (names.empty()) names = {"vecadd", "matmul"};
  for (const std::string& name : names) {
    DemoProgram program;
    program.name = name.substr(name.rfind('/') + 1);
    program.file = find_app(name);
    if (program.file.empty()) {
      throw std::runtime_error("there is no program " + name +
                               "; build the demo programs with: cmake --build BUILD --target "
                               "vgpu_apps (needs nvcc), or give paths");
    }
    programs_.push_back(program);
  }
  // The same program twice is fine, but its counts need two files.
  if (programs_[0].name == programs_[1].name) programs_[1].name += "-2";
}

void Demo::start_server() {
  step("starting a server on the software GPU");
  server_ = std::make_unique<PrivateServer>(places_, folder_.path(), "soft", supervisor_);
  const ServerAnswer answer = query_server(server_->address());
  if (!answer.info.devices.empty()) {
    const protocol::DeviceUse& device = answer.info.devices.front();
    step("server ready: " + device.name + ", " + bytes_text(device.memory_bytes) + ", driver " +
         answer.info.driver);
  }
}

Environment Demo::guest(const DemoProgram& program) const {
  GuestSettings settings;
  settings.server = server_->address();
  settings.name = "demo-" + program.name;
  settings.stats = stats_file(program);
  return guest_environment(current_environment(), settings, places_);
}

void Demo::check(const char* how, DemoProgram* program, const ChildOutcome& outcome) {
  std::string problem;
  if (outcome.timed_out) {
    problem = "took longer than " + std::to_string(options_.timeout_s) + " s";
  } else if (outcome.exit_code != 0) {
    problem = "ended with exit code " + std::to_string(outcome.exit_code);
  } else if (program->output.empty()) {
    program->output = outcome.output;
  } else if (outcome.output != program->output) {
    problem = "printed something else than the first run";
  }
  if (problem.empty()) return;
  ++failures_;
  std::printf("FAILED: %s, %s: %s\n%s%s", program->name.c_str(), how, problem.c_str(),
              outcome.output.c_str(), outcome.errors.c_str());
}

void Demo::measure(const char* how, const std::vector<DemoProgram*>& programs,
                   const std::function<Environment(const DemoProgram&)>& environment,
                   std::vector<double> DemoProgram::*into) {
  std::vector<std::unique_ptr<Child>> children;
  std::vector<Child*> waited;
  for (DemoProgram* program : programs) {
    children.push_back(
        std::make_unique<Child>(std::vector<std::string>{program->file}, environment(*program)));
    waited.push_back(children.back().get());
  }
  wait_for(waited, options_.timeout_s * 1000, supervisor_);
  std::string line;
  for (size_t i = 0; i < programs.size(); ++i) {
    const ChildOutcome outcome = children[i]->outcome();
    check(how, programs[i], outcome);
    (programs[i]->*into).push_back(static_cast<double>(outcome.wall_ns));
    line += (i == 0 ? "" : ", ") + programs[i]->name + " " +
            duration_text(static_cast<double>(outcome.wall_ns));
  }
  step(std::string("  ") + how + ": " + line);
}

void Demo::run_rounds() {
  const auto directly = [this](const DemoProgram&) { return direct(); };
  const auto as_guest = [this](const DemoProgram& program) { return guest(program); };
  const std::vector<DemoProgram*> both = {&programs_[0], &programs_[1]};
  for (int round = 1; round <= options_.rounds && failures_ == 0; ++round) {
    step("round " + std::to_string(round) + " of " + std::to_string(options_.rounds));
    for (DemoProgram* program : both) {
      measure("directly", {program}, directly, &DemoProgram::direct_ns);
      measure("through vGPU", {program}, as_guest, &DemoProgram::guest_ns);
      program->stats = take_stats(stats_file(*program));
      if (!program->stats.records && failures_ == 0) {
        ++failures_;
        std::printf("FAILED: %s wrote no counts: it made no CUDA call as a guest\n",
                    program->name.c_str());
      }
    }
    measure("both at once, directly", both, directly, &DemoProgram::direct_together_ns);
    measure("both at once, two guests", both, as_guest, &DemoProgram::guest_together_ns);
    for (const DemoProgram* program : both) (void)take_stats(stats_file(*program));
  }
}

int Demo::run() {
  if (places_.guest_library.empty() || places_.soft_library.empty()) {
    throw std::runtime_error(
        "the guest library or the software GPU is not beside this program; "
        "vgpu doctor says more");
  }
  if (options_.keep) folder_.keep();
  find_programs();
  start_server();
  run_rounds();
  if (failures_ != 0) {
    std::printf("\nThe demo FAILED. The server's log:\n%s", server_->log().c_str());
    return 1;
  }
  const uint64_t asked_ns = monotonic_ns();
  server_.reset();
  step("server stopped in " + duration_text(static_cast<double>(monotonic_ns() - asked_ns)));
  if (const int left = Supervisor::end_descendants(); left != 0) {
    std::printf("FAILED: %d processes of the server were left and had to be killed\n", left);
    return 1;
  }
  std::printf("\n%s\n", demo_table(programs_).c_str());
  std::printf("All runs gave the same output as the direct run.\n");
  if (options_.keep) std::printf("Kept: %s\n", folder_.path().c_str());
  return 0;
}

}  // namespace

int run_demo(const DemoOptions& options) {
  const Supervisor supervisor;
  try {
    return Demo(options, supervisor).run();
  } catch (const Interrupted&) {
    std::printf("\ninterrupted: everything is stopped\n");
    return kExitInterrupted;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vgpu demo: %s\n", error.what());
    return 1;
  }
}

}  // namespace vgpu::tools
