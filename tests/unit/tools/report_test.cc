// The tables of demo and bench: medians, ratios and verdicts.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/vgpu/bench.h"
#include "tools/vgpu/demo.h"

namespace vgpu::tools {
namespace {

using testing::HasSubstr;

TEST(Report, Median) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 3}), 3);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

TEST(Report, StatsAreReadOrSaidToBeMissing) {
  const GuestStats stats = parse_stats(R"({"round_trips": 3, "records": 120, "launches": 4})");
  EXPECT_EQ(stats.round_trips, 3U);
  EXPECT_EQ(count_text(stats.records), "120");
  EXPECT_EQ(count_text(parse_stats(R"({"round_trips": -1})").round_trips), "-");
  EXPECT_EQ(parse_stats("{\"records\": 1}\n{\"records\": 2}\n").records, 3U);
  EXPECT_EQ(count_text(parse_stats("garbage").launches), "-");
  EXPECT_EQ(count_text(take_stats("/no/such/file").launches), "-");
}

TEST(Report, DemoTableShowsRatiosOfMedians) {
  DemoProgram program;
  program.name = "vecadd";
  program.direct_ns = {100e6, 200e6, 300e6};
  program.guest_ns = {250e6, 240e6, 900e6};
  program.direct_together_ns = {400e6};
  program.guest_together_ns = {500e6};
  program.stats.round_trips = 7;
  const std::string text = demo_table({program});
  EXPECT_THAT(text, HasSubstr("200 ms"));
  EXPECT_THAT(text, HasSubstr("250 ms"));
  EXPECT_THAT(text, HasSubstr("1.25x"));
  EXPECT_THAT(text, HasSubstr("median of 3 rounds"));
}

std::string verdict_of(const std::vector<BenchRow>& rows, const std::string& what) {
  for (const BenchRow& row : rows) {
    if (row.what.starts_with(what)) return row.verdict;
  }
  return "no such row";
}

TEST(Report, BenchSaysMetOrByHowMuchMissed) {
  const std::vector<BenchRow> rows = judge_figures({{"null.launch_cpu_ns", 90},
                                                    {"null.launch_records_per_s", 12e6},
                                                    {"raw_futex_idle_ns", 50'000},
                                                    {"null.trip_idle_ns", 51'000},
                                                    {"soft.memcpy_bytes_per_s_0000064", 8e9},
                                                    {"soft.to_device_bytes_per_s_0000064", 2e9},
                                                    {"soft.from_device_bytes_per_s_0000064", 6e9}});
  EXPECT_EQ(verdict_of(rows, "launch of an empty kernel"), "missed by 1.50x");
  EXPECT_EQ(verdict_of(rows, "records through decode"), "met");
  EXPECT_EQ(verdict_of(rows, "round trip, sleeping"), "met");
  EXPECT_EQ(verdict_of(rows, "copy to device, 64 KiB"), "missed by 2.00x");
  EXPECT_EQ(verdict_of(rows, "copy from device, 64 KiB"), "met");
  EXPECT_EQ(verdict_of(rows, "cuMemAlloc"), "");  // not measured: no verdict
  EXPECT_THAT(bench_table(rows), HasSubstr("not measured"));
}

TEST(Report, BenchJsonHoldsEveryFigure) {
  const Figures figures = {{"null.alloc_ns", 123}};
  const auto json = nlohmann::json::parse(bench_json(figures, judge_figures(figures), {"copies"}));
  EXPECT_EQ(json["figures"]["null.alloc_ns"], 123);
  EXPECT_EQ(json["not_measured"][0], "copies");
}

}  // namespace
}  // namespace vgpu::tools
