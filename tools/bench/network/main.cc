// vgpu bench network: what a channel between hosts costs, beside libfabric itself in the same run.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/network/sides.h"

namespace vgpu::bench {
namespace {

struct Row {
  std::string what, aim;
  double ours = 0, raw = 0;
  std::string unit;
};

std::string table(const std::vector<Row>& rows) {
  std::string text;
  char line[200];
  std::snprintf(line, sizeof(line), "%-44s %12s %12s %8s  %s\n", "", "ours", "libfabric", "ratio",
                "aim");
  text += line;
  for (const Row& row : rows) {
    if (row.raw != 0) {
      std::snprintf(line, sizeof(line), "%-44s %9.2f %-5s %6.2f %-5s %5.2f  %s\n", row.what.c_str(),
                    row.ours, row.unit.c_str(), row.raw, row.unit.c_str(), row.ours / row.raw,
                    row.aim.c_str());
    } else {
      std::snprintf(line, sizeof(line), "%-44s %9.2f %-5s %12s %5s  %s\n", row.what.c_str(),
                    row.ours, row.unit.c_str(), "", "", row.aim.c_str());
    }
    text += line;
  }
  return text;
}

uint64_t own_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void measure_idle(const Session& session, int ms, std::vector<Row>* rows) {
  ::poll(nullptr, 0, 200);  // everybody goes to sleep
  const uint64_t guest = own_cpu_ns(), gate = session.gate.cpu_ns();
  const uint64_t worker = session.worker.cpu_ns();
  ::poll(nullptr, 0, ms);
  const auto percent = [&](uint64_t ns) { return static_cast<double>(ns) / (ms * 1e4); };
  rows->push_back({"idle guest, CPU", "0 %", percent(own_cpu_ns() - guest), 0, "%"});
  rows->push_back({"idle gate, CPU", "0 %", percent(session.gate.cpu_ns() - gate), 0, "%"});
  rows->push_back({"idle worker, CPU", "0 %", percent(session.worker.cpu_ns() - worker), 0, "%"});
}

using Sizes = std::vector<uint64_t>;  // of copies, in MiB
constexpr uint64_t kMiB = 1 << 20;

struct Sides {
  Ours* ours;
  Raw* raw;
};

// Median of rates that are measured in turns, so that whatever else the machine does hits both.
// Each side is awake when its time is taken: what it does first in its turn does not count.
template <typename OursFn, typename RawFn>
std::pair<double, double> in_turns(int turns, Sides sides, const OursFn& ours, const RawFn& raw) {
  std::vector<double> of_ours, of_raw;
  for (int i = 0; i < turns; ++i) {
    ::poll(nullptr, 0, 2 * kRawAwakeNs / 1'000'000);  // the raw peer goes to sleep
    (void)sides.ours->call_ns(1);
    of_ours.push_back(ours());
    (void)sides.raw->ping_pong_ns(1);
    of_raw.push_back(raw());
  }
  return {median(std::move(of_ours)), median(std::move(of_raw))};
}

void measure_calls(bool quick, Ours* ours, Raw* raw, std::vector<Row>* rows) {
  const int rounds = quick ? 2000 : 20'000;
  (void)ours->call_ns(rounds / 10);
  (void)raw->ping_pong_ns(rounds / 10);
  const auto [call, ping] = in_turns(
      5, {ours, raw}, [&] { return ours->call_ns(rounds) / 1e3; },
      [&] { return raw->ping_pong_ns(rounds) / 1e3; });
  rows->push_back({"synchronous call, 64 bytes each way", "<= 1.3", call, ping, "us"});
  const uint64_t records = quick ? 500'000 : 4'000'000;
  constexpr uint64_t kWrite = 8192;  // as many records as travel in a message
  const auto [launches, written] = in_turns(
      3, {ours, raw}, [&] { return ours->records_per_s(records) / 1e6; },
      [&] { return raw->stream_up(records * kRecordBytes, kWrite) / kRecordBytes / 1e6; });
  rows->push_back({"launches (records of 96 bytes)", ">= 2 M/s", launches, written, "M/s"});
}

void measure_copies(bool quick, Ours* ours, Raw* raw, std::vector<Row>* rows) {
  std::vector<std::byte> data(32 * kMiB, std::byte{3});
  (void)ours->copy_up(data, 64 * kMiB);
  (void)ours->copy_down(data, 64 * kMiB);
  (void)raw->stream_up(64 * kMiB);
  (void)raw->stream_down(64 * kMiB);
  for (const uint64_t mib : quick ? Sizes{1, 64} : Sizes{1, 16, 256, 1024}) {
    const uint64_t bytes = mib * kMiB;
    const int turns = mib <= 64 ? 15 : 3;
    const std::string of = ", " + std::to_string(mib) + " MiB";
    const auto add = [&](const std::string& what, const char* aim,
                         std::pair<double, double> of_both) {
      rows->push_back({what + of, aim, of_both.first / 1e9, of_both.second / 1e9, "GB/s"});
    };
    const auto up = [&] { return raw->stream_up(bytes); };
    const auto down = [&] { return raw->stream_down(bytes); };
    add("to device, lies in the slab", ">= 0.95",
        in_turns(
            turns, {ours, raw}, [&] { return ours->copy_up({}, bytes); }, up));
    add("to device, pageable", ">= 0.70",
        in_turns(
            turns, {ours, raw}, [&] { return ours->copy_up(data, bytes); }, up));
    add("from device, into the slab", ">= 0.95",
        in_turns(
            turns, {ours, raw}, [&] { return ours->copy_down({}, bytes); }, down));
    add("from device, pageable", ">= 0.70",
        in_turns(
            turns, {ours, raw}, [&] { return ours->copy_down(data, bytes); }, down));
  }
}

// `rows`: what was counted before; measured ones are added.
int run(bool quick, bool copies_only, const std::string& json, std::vector<Row> rows) {
  const net::Provider provider;
  net::Secret secret{};
  if (::getrandom(secret.data(), secret.size(), 0) < 0) die("getrandom");
  const protocol::ChannelSizes sizes;
  const RawServer raw_server = start_raw(provider, secret);
  const Session session = start_session(provider, secret, sizes);
  keep_on_cpu(0);  // before there are threads
  Ours ours({provider, session.address, "", secret}, sizes);
  Raw raw(provider, secret, raw_server);
  if (!copies_only) measure_calls(quick, &ours, &raw, &rows);
  measure_copies(quick, &ours, &raw, &rows);
  measure_idle(session, quick ? 1000 : 3000, &rows);
  std::printf("%s", table(rows).c_str());
  if (json.empty()) return 0;
  std::ofstream file(json);
  file << "[";
  for (size_t i = 0; i < rows.size(); ++i) {
    file << (i == 0 ? "" : ",") << "\n  {\"what\": \"" << rows[i].what
         << "\", \"ours\": " << rows[i].ours << ", \"raw\": " << rows[i].raw << ", \"unit\": \""
         << rows[i].unit << "\", \"aim\": \"" << rows[i].aim << "\"}";
  }
  file << "\n]\n";
  return file.good() ? 0 : 1;
}

}  // namespace
}  // namespace vgpu::bench

int main(int argc, char** argv) {
  bool quick = false, copies_only = false;
  std::string json;
  std::vector<vgpu::bench::Row> rows;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(argv[i], "--copies") == 0) {
      copies_only = true;
    } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else if (std::strcmp(argv[i], "--row") == 0 && i + 3 < argc) {
      rows.push_back({argv[i + 1], argv[i + 2], std::atof(argv[i + 3]), 0, ""});
      i += 3;
    } else {
      std::fprintf(
          stderr,
          "usage: vgpu-bench-network [--quick] [--copies] [--json FILE] [--row WHAT AIM VALUE]…\n");
      return 2;
    }
  }
  const int code = vgpu::bench::run(quick, copies_only, json, std::move(rows));
  std::fflush(nullptr);
  // The transport has threads; the peers are ended by their own destructors, which have run.
  _exit(code);
}
