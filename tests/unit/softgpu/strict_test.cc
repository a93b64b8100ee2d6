// Strict mode: guarded allocations, and faults for misaligned accesses.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "softgpu/exec/block.h"
#include "softgpu/exec/device.h"
#include "softgpu/program.h"

namespace vgpu::softgpu {
namespace {

// Before anything asks for the mode.
const int kWanted = ::setenv("VGPU_SOFTGPU_STRICT", "1", 1);

// *(float*)(at + stride * tid) = 1, as a vector of two with `wide`
constexpr char kKernels[] = R"(
.version 9.0
.target sm_75
.address_size 64
.visible .entry narrow(.param .u64 at, .param .u64 stride)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [at];
  ld.param.u64 %rd2, [stride];
  mov.u32 %r1, %tid.x;
  cvt.u64.u32 %rd3, %r1;
  mul.lo.s64 %rd4, %rd3, %rd2;
  add.s64 %rd5, %rd1, %rd4;
  mov.u32 %r2, 7;
  st.global.u32 [%rd5], %r2;
  ret;
}
.visible .entry wide(.param .u64 at)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [at];
  ld.global.v2.u32 {%r1, %r2}, [%rd1];
  st.global.v2.u32 [%rd1+8], {%r2, %r1};
  ret;
}
)";

class StrictTest : public testing::Test {
 protected:
  void SetUp() override {
    DeviceConfig config = read_device_config();
    config.segment_path.clear();
    config.memory_bytes = 64 << 20;
    ASSERT_TRUE(config.strict);
    auto segment = DeviceSegment::open(config);
    ASSERT_TRUE(segment.ok());
    segment_ = std::move(segment).value();
    auto memory = MemorySpace::create(segment_.get(), true);
    ASSERT_TRUE(memory.ok());
    memory_ = std::move(memory).value();
  }

  BlockStep run(uint32_t index, uint32_t threads, uint64_t at, uint64_t stride, Fault* fault) {
    Diagnostic error;
    const auto program = Program::parse(kKernels, &error);
    EXPECT_NE(program, nullptr) << error.text;
    const auto code = LoadedCode::load(program, [](std::string_view) { return uint64_t{0}; });
    const CompiledKernel* const kernel = code->compile(index, {threads, 1, 1}, &error);
    EXPECT_NE(kernel, nullptr) << error.line << ": " << error.text;
    const uint64_t params[2] = {at, stride};
    GridParams grid;
    grid.block = {threads, 1, 1};
    grid.params = reinterpret_cast<const uint8_t*>(params);
    BlockRunner runner;
    EXPECT_TRUE(runner.begin(*kernel, grid, {0, 0, 0}, 0));
    const BlockStep step = runner.run();
    *fault = runner.fault();
    return step;
  }

  std::unique_ptr<DeviceSegment> segment_;
  std::unique_ptr<MemorySpace> memory_;
};

TEST_F(StrictTest, OverrunsFaultAndAreTold) {
  const uint64_t first = memory_->allocate(1024, MemoryKind::kDevice, 1);
  const uint64_t second = memory_->allocate(3072, MemoryKind::kDevice, 1);
  ASSERT_NE(first, 0u);
  ASSERT_NE(second, 0u);
  EXPECT_EQ(first % 256, 0u);
  Fault fault;
  EXPECT_EQ(run(0, 256, first, 4, &fault), BlockStep::kFinished);
  EXPECT_EQ(run(0, 257, first, 4, &fault), BlockStep::kFault);
  EXPECT_EQ(fault.code, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(fault.address, first + 1024);
  const std::string text = memory_->describe(fault.address);
  EXPECT_NE(text.find("0 bytes behind the end of the allocation of 1024 bytes"), std::string::npos)
      << text;
  EXPECT_EQ(run(0, 768, second, 4, &fault), BlockStep::kFinished);
  EXPECT_EQ(run(0, 769, second, 4, &fault), BlockStep::kFault);
}

TEST_F(StrictTest, FreedMemoryFaultsAndTheLedgerBalances) {
  Fault fault;
  for (int round = 0; round < 100; ++round) {  // more than the device has at once
    const uint64_t at = memory_->allocate(2 << 20, MemoryKind::kDevice, 1);
    ASSERT_NE(at, 0u) << round;
    std::memset(reinterpret_cast<void*>(at), 1, 2 << 20);
    ASSERT_TRUE(memory_->free(at));
    if (round != 0) continue;
    EXPECT_EQ(run(0, 1, at, 4, &fault), BlockStep::kFault);
  }
}

TEST_F(StrictTest, MisalignedAccessesFault) {
  alignas(16) uint8_t bytes[4096] = {};
  const auto at = reinterpret_cast<uint64_t>(bytes);
  Fault fault;
  EXPECT_EQ(run(0, 32, at, 4, &fault), BlockStep::kFinished);
  EXPECT_EQ(run(0, 32, at + 1, 4, &fault), BlockStep::kFault) << "contiguous lanes";
  EXPECT_EQ(fault.code, CUDA_ERROR_MISALIGNED_ADDRESS);
  EXPECT_EQ(fault.address, at + 1);
  EXPECT_EQ(run(0, 32, at, 6, &fault), BlockStep::kFault) << "every second lane";
  EXPECT_EQ(fault.address, at + 6);
  EXPECT_EQ(run(1, 1, at + 8, 0, &fault), BlockStep::kFinished);
  EXPECT_EQ(run(1, 1, at + 4, 0, &fault), BlockStep::kFault) << "a vector needs all its bytes";
  EXPECT_EQ(fault.code, CUDA_ERROR_MISALIGNED_ADDRESS);
}

}  // namespace
}  // namespace vgpu::softgpu
