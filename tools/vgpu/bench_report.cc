// The figures beside the aims.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/vgpu/bench.h"
#include "tools/vgpu/table.h"

namespace vgpu::tools {
namespace {

constexpr char kNotMeasured[] = "not measured";

class Judge {
 public:
  explicit Judge(const Figures& figures) : figures_(figures) {}

  std::optional<double> figure(const std::string& name) const {
    const auto found = figures_.find(name);
    return found == figures_.end() ? std::nullopt : std::optional<double>(found->second);
  }
  std::string shown(const std::string& name, std::string (*text)(double)) const {
    const auto value = figure(name);
    return value ? text(*value) : kNotMeasured;
  }
  // A row whose figure should be at most (or, for `least`, at least) `aim`.
  void row(const std::string& what, const std::string& name, std::optional<double> aim, bool least,
           const std::string& aim_text, std::string (*text)(double), const std::string& raw) {
    BenchRow row{what, aim_text, shown(name, text), raw, ""};
    if (const auto value = figure(name); value && aim) {
      const bool met = least ? *value >= *aim : *value <= *aim;
      const double off = least ? *aim / *value : *value / *aim;
      row.verdict = met ? "met" : "missed by " + ratio_text(off);
    }
    rows_.push_back(row);
  }
  void plain(const std::string& what, const std::string& name, std::string (*text)(double)) {
    rows_.push_back({what, "", shown(name, text), "", ""});
  }
  std::vector<BenchRow> take() { return std::move(rows_); }

 private:
  const Figures& figures_;
  std::vector<BenchRow> rows_;
};

std::string times(double value) { return number_text(value, 2) + " times"; }
std::string rate(double per_second) { return number_text(per_second / 1e6, 2) + " M/s"; }
std::string trips(double count) { return number_text(count, count == int(count) ? 0 : 2); }
std::string bytes(double count) { return number_text(count, 0) + " bytes"; }
std::string bandwidth(double bytes_per_second) {
  return number_text(bytes_per_second / 1e9, 2) + " GB/s";
}

void judge_copies(const Figures& figures, Judge* judge) {
  for (const auto& [name, value] : figures) {
    constexpr std::string_view kPrefix = "soft.memcpy_bytes_per_s_";
    if (!name.starts_with(kPrefix)) continue;
    const std::string size = name.substr(kPrefix.size());  // in KiB, padded with zeros
    const std::string shown = bytes_text(std::stoull(size) * 1024);
    const std::string raw = "memcpy " + bandwidth(value);
    judge->row("copy to device, " + shown, "soft.to_device_bytes_per_s_" + size, value * 0.5, true,
               ">= 50 % of memcpy", bandwidth, raw);
    judge->row("copy from device, " + shown, "soft.from_device_bytes_per_s_" + size, value * 0.5,
               true, ">= 50 % of memcpy", bandwidth, raw);
  }
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "";
}

}  // namespace

std::vector<BenchRow> judge_figures(const Figures& figures) {
  Judge judge(figures);
  judge.row("launch of an empty kernel, guest CPU", "null.launch_cpu_ns", 60, false, "<= 60 ns",
            duration_text, "ring alone " + judge.shown("raw_ring_cpu_ns", duration_text));
  judge.row("records through decode to a null driver", "null.launch_records_per_s", 10e6, true,
            ">= 10 M/s", rate, "ring alone " + judge.shown("raw_ring_records_per_s", rate));
  judge.row("round trip, spinning", "null.trip_busy_ns", 500, false, "<= 0.5 us", duration_text,
            "spin " + judge.shown("raw_spin_ns", duration_text));
  const auto idle = judge.figure("raw_futex_idle_ns");
  judge.row("round trip, sleeping", "null.trip_idle_ns",
            idle ? std::optional<double>(*idle + 2000) : std::nullopt, false, "<= raw futex + 2 us",
            duration_text, "futex " + judge.shown("raw_futex_idle_ns", duration_text));
  judge.row("cuMemAlloc 4 KiB", "null.alloc_ns", 300, false, "<= 0.3 us", duration_text, "");
  judge.row("cuMemFree 4 KiB", "null.free_ns", 100, false, "<= 0.1 us", duration_text, "");
  judge_copies(figures, &judge);
  judge.row("vector add, 16 MiB each, managed memory", "soft.add_managed_times", 1.2, false,
            "<= 1.2 times with copies", times,
            "with copies " + judge.shown("soft.add_copied_ns", duration_text));
  judge.row("round trips, attach to first kernel", "soft.first_kernel_trips", 3, false, "<= 3",
            trips, "");
  judge.row("round trips of copy in, launch, copy out", "soft.step_trips", 1, false, "<= 1", trips,
            "");
  judge.row("launch of a graph of 1,000 kernels, guest CPU", "null.graph_launch_cpu_ns",
            std::nullopt, false, "", duration_text,
            "1,000 launches " + judge.shown("null.graph_plain_cpu_ns", duration_text));
  judge.row("the same, what a launch takes of the ring", "soft.graph_launch_bytes", 128, false,
            "<= 128 bytes", bytes, "");
  judge.row("the same, round trips of a launch", "soft.graph_launch_trips", 0.05, false, "none",
            trips, "");
  judge.row("attach to a waiting worker, software GPU", "soft.attach_ns", 5e6, false, "<= 5 ms",
            duration_text, "");
  judge.row("attach to a waiting worker, null driver", "null.attach_ns", 5e6, false, "<= 5 ms",
            duration_text, "");
  judge.plain("copy to device, 1 MiB, first of a process", "soft.first_to_device_bytes_per_s",
              bandwidth);
  judge.plain("graph of 1,000 empty kernels, to its end, software GPU", "soft.graph_ns",
              duration_text);
  judge.plain("launch, guest CPU, software GPU", "soft.launch_cpu_ns", duration_text);
  judge.plain("launches through the software GPU", "soft.launch_records_per_s", rate);
  judge.plain("futex exchange without pauses", "raw_futex_busy_ns", duration_text);
  return judge.take();
}

std::string bench_table(const std::vector<BenchRow>& rows) {
  using Align = Table::Align;
  Table table({{"what", Align::kLeft},
               {"measured"},
               {"aim", Align::kLeft},
               {"aim is", Align::kLeft},
               {"raw, same run", Align::kLeft}});
  for (const BenchRow& row : rows) {
    table.add({row.what, row.measured, row.aim, row.verdict, row.raw});
  }
  return table.text();
}

std::string bench_json(const Figures& figures, const std::vector<BenchRow>& rows,
                       const std::vector<std::string>& problems) {
  nlohmann::ordered_json json;
  json["version"] = VGPU_VERSION;
  json["processor"] = processor();
  json["cores"] = std::thread::hardware_concurrency();
  json["figures"] = figures;
  json["rows"] = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows) {
    json["rows"].push_back({{"what", row.what},
                            {"measured", row.measured},
                            {"aim", row.aim},
                            {"verdict", row.verdict},
                            {"raw", row.raw}});
  }
  json["not_measured"] = problems;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace vgpu::tools
