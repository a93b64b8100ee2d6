// What the generator makes: names of commands, the driver table and its double, argument printers.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <span>
#include <string>

#include "api/default_stream.h"
#include "api/driver_loader.h"
#include "driver_recorder.h"
#include "op.h"
#include "wire.h"

namespace vgpu {
namespace {

void print_field(std::string* out, const char* name, double value) {
  *out += std::string(" ") + name + "=" + std::to_string(static_cast<long long>(value));
}

bool print_args(uint16_t op, std::span<const uint8_t> bytes, std::string* out){
#include "trace_print.inc"
}

TEST(Generated, EveryCommandHasItsOwnName) {
  std::set<std::string> names;
  for (uint32_t op = 0; op <= 0xffff; ++op) {
    const char* name = op_name(static_cast<uint16_t>(op));
    if (name != nullptr) names.insert(name);
  }
  EXPECT_EQ(names.size(), kOpCount);
  EXPECT_EQ(op_name(0), nullptr) << "no command has the number 0";
  EXPECT_STREQ(op_name(static_cast<uint16_t>(Op::kLaunch)), "Launch");
}

TEST(Generated, TracePrintsEveryField) {
  wire::LaunchArgs args;
  args.module = 11;
  args.grid[2] = 12;
  args.priority = -3;
  std::string out;
  const auto* bytes = reinterpret_cast<const uint8_t*>(&args);
  const auto op = static_cast<uint16_t>(Op::kLaunch);
  ASSERT_TRUE(print_args(op, {bytes, sizeof args}, &out));
  EXPECT_NE(out.find(" module=11"), std::string::npos) << out;
  EXPECT_NE(out.find(" grid[2]=12"), std::string::npos) << out;
  EXPECT_NE(out.find(" priority=-3"), std::string::npos) << out;
  EXPECT_FALSE(print_args(op, {bytes, sizeof args - 1}, &out)) << "too short";
  EXPECT_FALSE(print_args(0, {bytes, sizeof args}, &out)) << "unknown";
}

TEST(Generated, RecorderServesTheWholeTable) {
  DriverTable table = recording_table();
  size_t count = 0;
  for_each_function(table, [&](const char* name, void** slot) {
    EXPECT_NE(*slot, nullptr) << name;
    ++count;
  });
  EXPECT_GT(count, 100u);
  DriverRecorder& recorder = DriverRecorder::instance();
  recorder.calls.clear();
  recorder.result["cuMemAlloc_v2"] = CUDA_ERROR_OUT_OF_MEMORY;
  CUdeviceptr address = 0;
  EXPECT_EQ(table.cuMemAlloc_v2(&address, 8), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(table.cuInit(0), CUDA_SUCCESS);
  EXPECT_EQ(recorder.calls["cuMemAlloc_v2"], 1);
  EXPECT_EQ(recorder.calls["cuInit"], 1);
}

TEST(Generated, LoaderSaysWhatIsWrong) {
  DriverTable table;
  EXPECT_NE(load_driver_table("/nonexistent/libcuda.so.1", &table), nullptr);
  const char* why = load_driver_table("libc.so.6", &table);
  ASSERT_NE(why, nullptr);
  EXPECT_NE(std::string(why).find("cuInit"), std::string::npos);
}

TEST(DefaultStream, ScopeOfAPerThreadCall) {
  EXPECT_EQ(driver::default_stream(), CU_STREAM_LEGACY);
  {
    driver::PerThreadScope outer;
    driver::PerThreadScope inner;
    EXPECT_EQ(driver::default_stream(), CU_STREAM_PER_THREAD);
  }
  EXPECT_EQ(driver::default_stream(), CU_STREAM_LEGACY);
  EXPECT_EQ(driver::per_thread(nullptr), CU_STREAM_PER_THREAD);
  EXPECT_EQ(driver::per_thread(CU_STREAM_LEGACY), CU_STREAM_LEGACY);
}

}  // namespace
}  // namespace vgpu
