// Measuring children on the software GPU and on the driver that does nothing.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/vgpu/bench.h"
#include "tools/vgpu/demo.h"
#include "tools/vgpu/private_server.h"
#include "tools/vgpu/stats.h"

namespace vgpu::tools {
namespace {

constexpr int kChildMsMax = 180'000;
constexpr int kWorkerReadyMs = 300;  // time for vgpud to have the next worker waiting

// Children of one server.
class GuestBench {
 public:
  GuestBench(const BenchOptions& options, const Supervisor& supervisor, const Places& places,
             const std::string& prefix, const std::string& driver, Figures* figures,
             std::vector<std::string>* problems)
      : options_(options),
        supervisor_(supervisor),
        places_(places),
        prefix_(prefix),
        server_(places, folder_.path(), driver, supervisor),
        figures_(figures),
        problems_(problems) {}

  // Runs one mode of the child and keeps what it prints.
  void calls() { keep(child({"calls", options_.quick ? "1" : "10"})); }
  void copies() {
    keep(child({"copies", options_.quick ? "5" : "15", options_.quick ? "16" : "256"}));
  }
  void managed() { keep(child({"managed", options_.quick ? "5" : "25", "16"})); }
  void attach();
  void round_trips();
  void graphs();

 private:
  nlohmann::json child(const std::vector<std::string>& arguments);
  void keep(const nlohmann::json& json);
  void put(const std::string& name, double value) { (*figures_)[prefix_ + name] = value; }

  const BenchOptions& options_;
  const Supervisor& supervisor_;
  const Places& places_;
  std::string prefix_;
  TemporaryFolder folder_;
  PrivateServer server_;
  Figures* figures_;
  std::vector<std::string>* problems_;
  GuestStats stats_;
};

nlohmann::json GuestBench::child(const std::vector<std::string>& arguments) {
  GuestSettings settings;
  settings.server = server_.address();
  settings.name = "bench-" + arguments.front();
  settings.memory = std::to_string(uint64_t{1} << 30);
  settings.stats = folder_.path() + "/stats.json";
  std::vector<std::string> command = {places_.bench_guest};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const ChildOutcome outcome =
      run_child(command, guest_environment(current_environment(), settings, places_), kChildMsMax,
                supervisor_);
  stats_ = take_stats(settings.stats);
  nlohmann::json json = nlohmann::json::parse(outcome.output, nullptr, false);
  if (outcome.timed_out || outcome.exit_code != 0 || !json.is_object()) {
    problems_->push_back(
        prefix_ + arguments.front() + ": " +
        (outcome.timed_out ? "took too long" : "exit code " + std::to_string(outcome.exit_code)) +
        ": " + outcome.output + outcome.errors);
    return nlohmann::json::object();
  }
  return json;
}

void GuestBench::keep(const nlohmann::json& json) {
  for (const auto& [name, value] : json.items()) {
    if (value.is_number()) put(name, value.get<double>());
  }
}

void GuestBench::attach() {
  std::vector<double> times;
  for (int i = 0; i < (options_.quick ? 5 : 20); ++i) {
    pause_ms(kWorkerReadyMs, supervisor_);
    const nlohmann::json json = child({"attach"});
    if (!json.contains("attach_ns")) return;
    times.push_back(json["attach_ns"].get<double>());
  }
  put("attach_ns", median(times));
  put("attach_max_ns", *std::max_element(times.begin(), times.end()));
}

// Differences between runs of different length, so that what happens at exit cancels out.
void GuestBench::round_trips() {
  const auto trips = [&](const std::vector<std::string>& arguments) -> std::optional<double> {
    if (child(arguments).empty()) return std::nullopt;
    if (!stats_.round_trips) {
      problems_->push_back(prefix_ + arguments.front() + ": the guest wrote no round trips");
      return std::nullopt;
    }
    return static_cast<double>(*stats_.round_trips);
  };
  constexpr int kSteps = 100;
  const auto first = trips({"kernel"});
  const auto none = trips({"steps", "0"});
  const auto many = trips({"steps", std::to_string(kSteps)});
  if (first) put("first_kernel_trips", *first);
  if (none && many) put("step_trips", (*many - *none) / kSteps);
}

// What launches of a graph of 1,000 kernels cost: time, and what they send and wait for.
void GuestBench::graphs() {
  keep(child({"graphs", options_.quick ? "1" : "10"}));
  constexpr int kLaunches = 100;
  const bool none = !child({"graph_steps", "0"}).empty();
  const GuestStats before = stats_;
  if (!none || child({"graph_steps", std::to_string(kLaunches)}).empty()) return;
  if (!before.ring_bytes || !stats_.ring_bytes || !before.round_trips || !stats_.round_trips) {
    problems_->push_back(prefix_ + "graph_steps: the guest wrote no counts");
    return;
  }
  const auto each = [](uint64_t many, uint64_t few) {
    return (static_cast<double>(many) - static_cast<double>(few)) / kLaunches;
  };
  put("graph_launch_bytes", each(*stats_.ring_bytes, *before.ring_bytes));
  put("graph_launch_trips", each(*stats_.round_trips, *before.round_trips));
}

void say(const char* text) {
  std::printf("%s ...\n", text);
  std::fflush(stdout);
}

}  // namespace

void measure_guests(const BenchOptions& options, const Supervisor& supervisor, Figures* figures,
                    std::vector<std::string>* problems) {
  const Places places = find_places();
  if (places.guest_library.empty() || places.bench_guest.empty() || places.null_driver.empty()) {
    throw std::runtime_error("guest library, vgpu-bench-guest or libcuda-null.so is missing");
  }
  {
    say("measuring calls on a driver that does nothing");
    GuestBench bench(options, supervisor, places, "null.", places.null_driver, figures, problems);
    bench.calls();
    bench.attach();
    bench.graphs();
  }
  say("measuring calls, attach and copies on the software GPU");
  GuestBench bench(options, supervisor, places, "soft.", "soft", figures, problems);
  bench.calls();
  bench.attach();
  bench.round_trips();
  bench.graphs();
  bench.copies();
  bench.managed();
}

}  // namespace vgpu::tools
