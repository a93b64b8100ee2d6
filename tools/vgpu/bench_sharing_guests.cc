// What vgpu bench sharing measures: guests under one server.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/clock.h"
#include "tools/vgpu/bench_sharing.h"
#include "tools/vgpu/server_query.h"

namespace vgpu::tools {
namespace {

constexpr int kGuestMsMax = 120'000;
constexpr uint64_t kBeginsInNs = 3'000'000'000;  // until then every guest is warm, and this each:
constexpr uint64_t kStartsInNs = 500'000'000;
constexpr int kWindowsPerSecond = 20;  // as vgpu-bench-share reports
constexpr uint64_t kSecondNs = 1'000'000'000;

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  for (pid_t each = 0; file >> each;) found.push_back(each);
  return found;
}

double cpu_seconds(pid_t pid) {
  clockid_t clock = 0;
  timespec time{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// Pages of its own, and its part of those that it shares.
double resident_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Pss:")) return 1024 * std::stod(line.substr(4));
  }
  return 0;
}

}  // namespace

SharingBench::SharingBench(const BenchOptions& options, const Supervisor& supervisor,
                           const Places& places, const std::string& scheduler, Figures* figures,
                           std::vector<std::string>* problems)
    : options_(options),
      supervisor_(supervisor),
      places_(places),
      scheduler_(scheduler),
      seconds_(options.quick ? 4 : 20),
      server_(places, folder_.path(), "soft", supervisor, {"--scheduler", scheduler}),
      figures_(figures),
      problems_(problems) {}

std::string SharingBench::loops_of(double ms) const {
  return std::to_string(std::max(1L, std::lround(ms * loops_per_ms_)));
}

std::string SharingBench::start_time(int guests) {
  return std::to_string(monotonic_ns() + kBeginsInNs + static_cast<uint64_t>(guests) * kStartsInNs);
}

std::unique_ptr<Child> SharingBench::start(const ShareGuest& guest) {
  GuestSettings settings;
  settings.server = server_.address();
  settings.memory = guest.memory;
  settings.share = guest.weight;
  settings.cap = guest.cap;
  settings.priority = guest.priority;
  std::vector<std::string> command = {places_.bench_share};
  command.insert(command.end(), guest.arguments.begin(), guest.arguments.end());
  return std::make_unique<Child>(command,
                                 guest_environment(current_environment(), settings, places_));
}

void SharingBench::finish(const std::vector<Child*>& children) {
  wait_for(children, kGuestMsMax, supervisor_);
  pause_ms(200, supervisor_);  // their workers end
}

double SharingBench::calibrate() {
  const auto child = start({{"calibrate"}});
  finish({child.get()});
  const auto json = nlohmann::json::parse(child->output(), nullptr, false);
  if (!json.is_object() || !json.contains("loops"))
    throw std::runtime_error("vgpu-bench-share: " + child->output() + child->errors());
  return json["loops"].get<double>();
}

SharingBench::Ends SharingBench::ends_of(Child* child, const std::string& what) {
  const auto json = nlohmann::json::parse(child->output(), nullptr, false);
  if (json.is_object() && json.contains("ends") && child->errors().empty())
    return json["ends"].get<Ends>();
  problem(what + ": " + child->output().substr(0, 200) + child->errors());
  return {};
}

void SharingBench::shares(const std::string& name, const std::vector<unsigned>& weights) {
  // Who has the greatest weight has the shortest kernels: what counts kernels gets it wrong.
  const double lengths[] = {0.5, 2, 5};
  const std::string start_at = start_time(static_cast<int>(weights.size()));
  const std::string seconds = std::to_string(seconds_);
  std::vector<std::unique_ptr<Child>> guests;
  std::vector<Child*> all;
  for (size_t i = 0; i < weights.size(); ++i) {
    guests.push_back(
        start({{"bulk", loops_of(lengths[i % 3]), start_at, seconds}, std::to_string(weights[i])}));
    all.push_back(guests.back().get());
  }
  finish(all);
  std::vector<double> had;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Ends ends = ends_of(all[i], name);
    if (ends.empty()) return;
    had.push_back(lengths[i % 3] * std::accumulate(ends.begin(), ends.end(), 0.0));
  }
  const double sum = std::accumulate(had.begin(), had.end(), 0.0);
  const double weight_sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double worst = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    put(name + "_share_" + std::to_string(i) + "_percent", 100 * had[i] / sum);
    worst = std::max(worst, std::abs(had[i] / sum / (weights[i] / weight_sum) - 1));
  }
  put(name + "_error_percent", 100 * worst);
  put(name + "_work_percent", 100 * sum / (1000.0 * seconds_));
}

void SharingBench::cap() {
  const std::string start_at = start_time(2), seconds = std::to_string(seconds_);
  const auto capped = start({{"bulk", loops_of(1), start_at, seconds}, "100", "30"});
  const auto free = start({{"bulk", loops_of(1), start_at, seconds}});
  finish({capped.get(), free.get()});
  const Ends had = ends_of(capped.get(), "cap"), others = ends_of(free.get(), "cap");
  if (had.empty() || others.empty()) return;
  double low = 100, high = 0, sum = 0;
  for (int second = 1; second < seconds_; ++second) {  // a burst may be saved up at first
    double window = 0;
    for (int i = 0; i < kWindowsPerSecond; ++i)
      window += had[static_cast<size_t>(second * kWindowsPerSecond + i)];
    const double percent = window / 10;  // milliseconds of a second
    low = std::min(low, percent);
    high = std::max(high, percent);
    sum += percent;
  }
  put("cap_low_percent", low);
  put("cap_high_percent", high);
  put("cap_mean_percent", sum / (seconds_ - 1));
  put("cap_off_points", std::max(std::abs(low - 30), std::abs(high - 30)));
}

void SharingBench::change() {
  const uint64_t start_at = std::stoull(start_time(2));
  const uint64_t at = start_at + static_cast<uint64_t>(seconds_) * kSecondNs / 2;
  const std::vector<std::string> bulk = {"bulk", loops_of(1), std::to_string(start_at),
                                         std::to_string(seconds_)};
  const auto gains = start({bulk}), loses = start({bulk});
  protocol::GuestsReply guests;
  const uint64_t now = monotonic_ns();
  if (now >= at) return problem("the guests whose weights change took too long to start");
  pause_ms(static_cast<int>((at - now) / 1'000'000), supervisor_);
  (void)query_guests(server_.address(), 0, &guests);
  protocol::SteerRequest request;
  request.action = protocol::SteerAction::kLimit;
  request.weight = 900;
  for (const protocol::GuestState& guest : guests.guests) {
    if (guest.pid == gains->pid()) request.session = guest.session;
  }
  if (request.session == 0) return problem("the guest whose weight changes is not there");
  protocol::SteerReply reply;
  const ServerAnswer answer = steer_server(server_.address(), request, &reply);
  const uint64_t changed = monotonic_ns();
  finish({gains.get(), loses.get()});
  if (answer.state != ServerState::kAnswers) return problem("a weight did not change");
  const Ends had = ends_of(gains.get(), "change"), others = ends_of(loses.get(), "change");
  if (had.empty() || others.size() != had.size()) return;
  // From half to nine tenths: the change has been made where four windows together have passed the
  // middle of these.
  constexpr double kMiddle = 0.7;
  constexpr size_t kTogether = 4;
  const uint64_t window = kSecondNs / kWindowsPerSecond;
  for (size_t i = (changed - start_at) / window; i + kTogether <= had.size(); ++i) {
    double mine = 0, all = 0;
    for (size_t at_window = i; at_window < i + kTogether; ++at_window) {
      mine += had[at_window];
      all += had[at_window] + others[at_window];
    }
    if (mine < kMiddle * all) continue;
    const uint64_t seen = start_at + i * window;
    return put("change_ns", seen > changed ? static_cast<double>(seen - changed) : 0);
  }
  problem("a changed weight had no effect");
}

void SharingBench::latency() {
  for (const int others : {0, 1, 4, 16}) {
    const std::string start_at = start_time(1 + others), seconds = std::to_string(seconds_);
    const auto guest = start({{"latency", loops_of(1), start_at, seconds}, "100", "", "latency"});
    std::vector<std::unique_ptr<Child>> bulk;
    std::vector<Child*> all = {guest.get()};
    for (int i = 0; i < others; ++i) {
      bulk.push_back(start({{"bulk", loops_of(kBulkMs), start_at, seconds}}));
      all.push_back(bulk.back().get());
    }
    finish(all);
    const auto json = nlohmann::json::parse(guest->output(), nullptr, false);
    if (!json.is_object() || !json.contains("p99_ns")) {
      problem("latency guest beside " + std::to_string(others) + ": " + guest->errors());
      continue;
    }
    const std::string prefix = "latency_" + std::to_string(others);
    put(prefix + "_p50_ns", json["p50_ns"].get<double>());
    put(prefix + "_p99_ns", json["p99_ns"].get<double>());
  }
}

double SharingBench::alone(int kernel_us) {
  const int seconds = options_.quick ? 2 : 5;
  const auto guest =
      start({{"bulk", loops_of(kernel_us / 1000.0), start_time(1), std::to_string(seconds)}});
  finish({guest.get()});
  const Ends ends = ends_of(guest.get(), "alone");
  return std::accumulate(ends.begin(), ends.end(), 0.0) / seconds;
}

bool SharingBench::await_lines(const std::vector<std::unique_ptr<Child>>& guests) {
  const uint64_t limit = monotonic_ns() + uint64_t{kGuestMsMax} * 1'000'000;
  for (const auto& guest : guests) {
    while (guest->output().find('\n') == std::string::npos) {
      if (guest->ended() || monotonic_ns() > limit) return false;
      pause_ms(5, supervisor_);
    }
  }
  return true;
}

void SharingBench::idle(int count) {
  std::vector<std::unique_ptr<Child>> guests;
  for (int i = 0; i < count; ++i) {
    ShareGuest guest{{"idle", "600"}};
    guest.memory = "4M";
    guests.push_back(start(guest));
  }
  if (!await_lines(guests)) return problem("not all of the idle guests came: " + server_.log());
  pause_ms(2000, supervisor_);
  std::vector<pid_t> processes = children_of(server_.pid());
  const auto workers = static_cast<double>(processes.size());
  double bytes = 0;
  for (const pid_t each : processes) bytes += resident_bytes(each);
  processes.push_back(server_.pid());
  const auto cpu = [&] {
    double sum = 0;
    for (const pid_t each : processes) sum += cpu_seconds(each);
    return sum;
  };
  const double before = cpu();
  const uint64_t began = monotonic_ns();
  pause_ms(5000, supervisor_);
  put("idle_guests", count);
  put("idle_cpu_percent",
      100 * (cpu() - before) * 1e9 / static_cast<double>(monotonic_ns() - began));
  put("idle_worker_bytes", bytes / workers);
  for (const auto& guest : guests) guest->signal(SIGKILL);
  std::vector<Child*> all;
  for (const auto& guest : guests) all.push_back(guest.get());
  finish(all);
}

void SharingBench::crowd(int count) {
  std::vector<std::unique_ptr<Child>> guests;
  std::vector<Child*> all;
  const uint64_t began = monotonic_ns();
  for (int i = 0; i < count; ++i) {
    guests.push_back(start({{"check"}}));
    all.push_back(guests.back().get());
  }
  wait_for(all, kGuestMsMax, supervisor_);
  put("crowd_ns", static_cast<double>(monotonic_ns() - began));
  int failed = 0;
  for (const auto& guest : guests) failed += guest->outcome().exit_code != 0;
  put("crowd_guests", count);
  put("crowd_failures", failed);
}

void SharingBench::kill() {
  std::vector<double> times;
  for (int i = 0; i < (options_.quick ? 3 : 10); ++i) {
    pause_ms(500, supervisor_);
    ShareGuest holder{{"hold", "256"}};
    holder.memory = "300M";
    std::vector<std::unique_ptr<Child>> guests;
    guests.push_back(start(holder));
    if (!await_lines(guests)) return problem("the guest that holds memory did not come");
    const auto granted = [&] {
      const ServerAnswer answer = query_server(server_.address());
      return answer.info.devices.empty() || answer.info.devices[0].granted_bytes != 0;
    };
    guests[0]->signal(SIGKILL);
    const uint64_t began = monotonic_ns();
    while (granted() && monotonic_ns() - began < 10 * kSecondNs) continue;
    times.push_back(static_cast<double>(monotonic_ns() - began));
    finish({guests[0].get()});
  }
  std::sort(times.begin(), times.end());
  put("kill_to_memory_ns", times[times.size() / 2]);
  put("kill_to_memory_max_ns", times.back());
}

}  // namespace vgpu::tools
