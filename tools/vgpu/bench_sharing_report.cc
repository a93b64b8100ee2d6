// What was measured of sharing, beside the aims and beside the baselines.
// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "tools/vgpu/bench_sharing.h"
#include "tools/vgpu/table.h"

namespace vgpu::tools {
namespace {

constexpr char kNotMeasured[] = "not measured";

std::string percent(double value) { return number_text(value, 1) + " %"; }
std::string points(double value) { return number_text(value, 1) + " points"; }
std::string count(double value) { return number_text(value, 0); }
std::string size(double value) { return bytes_text(static_cast<uint64_t>(value)); }

std::optional<double> figure(const Figures& figures, const std::string& name) {
  const auto found = figures.find(name);
  return found == figures.end() ? std::nullopt : std::optional<double>(found->second);
}

// A figure that should be at most `aim`.
BenchRow row(const Figures& figures, const std::string& what, const std::string& name,
             std::optional<double> aim, const std::string& aim_text, std::string (*text)(double),
             const std::string& beside = "") {
  BenchRow made{what, aim_text, kNotMeasured, beside, ""};
  const auto value = figure(figures, name);
  if (!value) return made;
  made.measured = text(*value);
  if (aim) made.verdict = *value <= *aim ? "met" : "missed: " + text(*value - *aim) + " more";
  return made;
}

std::string range(const Figures& figures) {
  const auto low = figure(figures, "fair.cap_low_percent");
  const auto high = figure(figures, "fair.cap_high_percent");
  return low && high ? percent(*low) + " to " + percent(*high) : "";
}

void judge_alone(const Figures& figures, std::vector<BenchRow>* rows) {
  for (const char* us : {"20", "100", "1000"}) {
    const std::string name = std::string("alone_") + us + "_us_";
    const auto none = figure(figures, "fifo." + name + "per_s");
    rows->push_back(row(figures, std::string("one guest alone, ") + us + " us kernels: loss",
                        name + "loss_percent", 1, "<= 1 %", percent,
                        none ? "without admission " + count(*none) + "/s" : ""));
  }
}

}  // namespace

std::vector<BenchRow> judge_sharing(const Figures& figures) {
  std::vector<BenchRow> rows;
  rows.push_back(row(figures, "weights 3:1, error of shares", "fair.shares_3_1_error_percent", 5,
                     "<= 5 %", percent));
  rows.push_back(row(figures, "weights 70:20:10, error of shares",
                     "fair.shares_70_20_10_error_percent", 5, "<= 5 %", percent));
  rows.push_back(row(figures, "cap of 30 %, windows of 1 s: farthest off", "fair.cap_off_points", 3,
                     "<= 3 points", points, range(figures)));
  const auto alone = figure(figures, "fair.latency_0_p99_ns");
  for (const char* others : {"1", "4", "16"}) {
    const double window = kTurnsAtOnce * kBulkMs * 1e6;
    rows.push_back(row(figures, std::string("p99 of a latency guest beside ") + others,
                       std::string("fair.latency_") + others + "_p99_ns",
                       alone ? std::optional<double>(*alone + window) : std::nullopt,
                       "<= alone + 2 x 10 ms", duration_text,
                       alone ? "alone " + duration_text(*alone) : ""));
  }
  judge_alone(figures, &rows);
  const auto work = figure(figures, "fair.shares_3_1_work_percent");
  const auto same = figure(figures, "fifo.shares_3_1_work_percent");
  BenchRow idle{"idle while two guests want it: less work than under fifo", "<= 1 %", kNotMeasured,
                "", ""};
  if (work && same && *same > 0) {
    const double lost = 100 * (1 - *work / *same);
    idle.measured = percent(lost);
    idle.verdict = lost <= 1 ? "met" : "missed: " + percent(lost - 1) + " more";
    idle.raw = percent(*work) + " and " + percent(*same) + " of what one alone does";
  }
  rows.push_back(idle);
  rows.push_back(row(figures, "a changed weight: until it has its effect", "fair.change_ns", 100e6,
                     "<= 100 ms", duration_text));
  const auto guests = figure(figures, "fair.idle_guests");
  rows.push_back(row(figures, (guests ? count(*guests) : "") + " idle guests, CPU of one core",
                     "fair.idle_cpu_percent", 0.5, "0 %", percent));
  rows.push_back(row(figures, "memory of an idle guest's worker", "fair.idle_worker_bytes",
                     std::nullopt, "stated", size));
  rows.push_back(row(figures, "64 guests at once: failures", "fair.crowd_failures", 0, "0", count));
  rows.push_back(row(figures, "64 guests at once: time", "fair.crowd_ns", std::nullopt, "stated",
                     duration_text));
  rows.push_back(row(figures, "guest killed to memory back", "fair.kill_to_memory_ns", 50e6,
                     "<= 50 ms", duration_text));
  return rows;
}

std::string sharing_table(const Figures& figures) {
  using Align = Table::Align;
  Table table({{"with other schedulers", Align::kLeft}, {"fair"}, {"fifo"}, {"round-robin"}});
  const auto add = [&](const std::string& what, const std::string& name,
                       std::string (*text)(double)) {
    std::vector<std::string> cells = {what};
    for (const char* scheduler : {"fair.", "fifo.", "round-robin."}) {
      const auto value = figure(figures, scheduler + name);
      cells.push_back(value ? text(*value) : kNotMeasured);
    }
    table.add(cells);
  };
  add("3:1, who should have 75 %", "shares_3_1_share_0_percent", percent);
  add("3:1, error", "shares_3_1_error_percent", percent);
  add("70:20:10, who should have 70 %", "shares_70_20_10_share_0_percent", percent);
  add("70:20:10, error", "shares_70_20_10_error_percent", percent);
  add("cap of 30 %, mean", "cap_mean_percent", percent);
  for (const char* others : {"0", "1", "4", "16"}) {
    add(std::string("latency guest beside ") + others + ", p50",
        std::string("latency_") + others + "_p50_ns", duration_text);
    add(std::string("latency guest beside ") + others + ", p99",
        std::string("latency_") + others + "_p99_ns", duration_text);
  }
  add("work done, 3:1", "shares_3_1_work_percent", percent);
  return table.text();
}

}  // namespace vgpu::tools
