// What the compiler tells about kernels, and what it does with their memory.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "softgpu/exec/block.h"
#include "softgpu/jit/compile_queue.h"
#include "softgpu/jit/engine.h"
#include "softgpu/program.h"

namespace vgpu::softgpu {
namespace {

// Before anything asks for the cache: a folder of this process.
const std::string& cache_folder() {
  static const std::string folder = [] {
    char path[] = "/tmp/vgpu-compiler-test-XXXXXX";
    return std::string(::mkdtemp(path) != nullptr ? path : "off");
  }();
  return folder;
}
const int kCacheSet = ::setenv("VGPU_SOFTGPU_CACHE", cache_folder().c_str(), 1);

constexpr char kHead[] = ".version 9.0\n.target sm_75\n.address_size 64\n";

std::shared_ptr<const Program> parse(const std::string& body) {
  Diagnostic error;
  auto program = Program::parse(kHead + body, &error);
  EXPECT_NE(program, nullptr) << error.line << ": " << error.text;
  return program;
}

// The window of the second kernel holds its variable, and not what the first one declared before
// it: otherwise the store would fall behind the window's end.
TEST(SharedMemory, VariablesLieInsideTheWindow) {
  const auto program = parse(R"(
.visible .entry first()
{
  .shared .align 4 .b8 large[40000];
  .reg .b32 %r<2>;
  mov.u32 %r1, large;
  ret;
}
.visible .entry second(.param .u64 out)
{
  .shared .align 4 .b8 small[16];
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  mov.u32 %r1, 7;
  st.shared.u32 [small+8], %r1;
  mov.u32 %r2, small;
  ld.param.u64 %rd1, [out];
  st.global.u32 [%rd1], %r2;
  ld.shared.u32 %r2, [%r2+8];
  st.global.u32 [%rd1+4], %r2;
  ret;
}
)");
  auto code = LoadedCode::load(program, [](std::string_view) { return uint64_t{0}; });
  Diagnostic error;
  const CompiledKernel* const kernel = code->compile(1, {1, 1, 1}, &error);
  ASSERT_NE(kernel, nullptr) << error.line << ": " << error.text;
  EXPECT_EQ(kernel->shared_bytes, 16u);
  uint32_t out[2] = {99, 99};
  const uint64_t param = reinterpret_cast<uint64_t>(out);
  GridParams grid;
  grid.params = reinterpret_cast<const uint8_t*>(&param);
  BlockRunner runner;
  ASSERT_TRUE(runner.begin(*kernel, grid, {0, 0, 0}, 0));
  ASSERT_EQ(runner.run(), BlockStep::kFinished) << runner.fault().text;
  EXPECT_EQ(out[0], 0u);
  EXPECT_EQ(out[1], 7u);
}

// counter += 1, and out = counter
std::string counting_kernel(const std::string& name) {
  return ".visible .global .align 4 .u32 counter;\n.visible .entry " + name + R"((.param .u64 out)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  mov.u64 %rd1, counter;
  ld.global.u32 %r1, [%rd1];
  add.s32 %r2, %r1, 1;
  st.global.u32 [counter], %r2;
  ld.param.u64 %rd2, [out];
  st.global.u32 [%rd2], %r2;
  ret;
}
)";
}

// Both threads that compile are busy until release().
class BusyCompilers {
 public:
  BusyCompilers() {
    for (int i = 0; i < Engine::kAtOnceMax; ++i) {
      CompileQueue::instance().add([gate = gate_](bool) {
        ++gate->inside;
        gate->open.wait(false);
      });
    }
    while (gate_->inside < Engine::kAtOnceMax) std::this_thread::yield();
  }
  ~BusyCompilers() { release(); }
  void release() {
    gate_->open = true;
    gate_->open.notify_all();
  }

 private:
  struct Gate {
    std::atomic<int> inside{0};
    std::atomic<bool> open{false};
  };
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

class CacheFolder : public testing::Environment {
 public:
  void TearDown() override {
    const BusyCompilers nobody_stores_any_more;
    std::filesystem::remove_all(cache_folder());
  }
};
const auto* const kCacheFolder = testing::AddGlobalTestEnvironment(new CacheFolder);

uint32_t run_once(const CompiledKernel& kernel) {
  uint32_t out = 0;
  const uint64_t param = reinterpret_cast<uint64_t>(&out);
  GridParams grid;
  grid.params = reinterpret_cast<const uint8_t*>(&param);
  BlockRunner runner;
  EXPECT_TRUE(runner.begin(kernel, grid, {0, 0, 0}, 0));
  EXPECT_EQ(runner.run(), BlockStep::kFinished) << runner.fault().text;
  return out;
}

SymbolResolver counter_at(uint32_t* counter) {
  return [counter](std::string_view name) {
    return name == "counter" ? reinterpret_cast<uint64_t>(counter) : uint64_t{0};
  };
}

TEST(Compiling, HappensElsewhereAndOtherKernelsDoNotWait) {
  uint32_t counter = 4;
  const auto ready = parse(counting_kernel("ready_before")), late = parse(counting_kernel("late"));
  Diagnostic error;
  const auto ready_code = LoadedCode::load(ready, counter_at(&counter));
  ASSERT_NE(ready_code->compile(0, {1, 1, 1}, &error), nullptr) << error.text;
  BusyCompilers busy;
  const auto late_code = LoadedCode::load(late, counter_at(&counter));
  const auto kernel = late_code->prepare(0, {1, 1, 1}, &error);
  ASSERT_NE(kernel, nullptr) << error.text;
  EXPECT_FALSE(kernel->readiness.ready());
  bool told = false;
  kernel->readiness.then([&told] { told = true; });
  EXPECT_TRUE(ready_code->prepare(0, {1, 1, 1}, &error)->readiness.ready());
  EXPECT_FALSE(told);
  busy.release();
  kernel->readiness.wait();
  EXPECT_EQ(run_once(*kernel), 5u);
}

// Those who wait for a kernel are told when the process exits before it is compiled.
TEST(Compiling, JobsThatWaitAtExitAreTold) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto exit_early = [] {
    new BusyCompilers;
    CompileQueue::instance().add([](bool may_compile) {
      std::filesystem::remove_all(cache_folder());
      std::_Exit(may_compile ? 1 : 7);
    });
    std::exit(0);
  };
  EXPECT_EXIT(exit_early(), testing::ExitedWithCode(7), "");
}

TEST(Compiling, UnsupportedInstructionsAreFoundAtOnce) {
  BusyCompilers busy;
  // Known to ptxas, and not to this JIT.
  const auto program = parse(
      ".visible .entry k()\n{\n  .reg .b16 %h<2>;\n  fma.rn.oob.f16 %h1, %h1, %h1, %h1;\n  "
      "ret;\n}\n");
  Diagnostic error;
  const auto code = LoadedCode::load(program, nullptr);
  EXPECT_EQ(code->prepare(0, {1, 1, 1}, &error), nullptr);
  EXPECT_NE(error.line, 0);
}

// Forms that are nearly right: a message with a place, and no reading past what is there.
TEST(Compiling, WhatLacksOperandsIsRefused) {
  for (const char* line :
       {"cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.multicast::cluster [%rd1, "
        "{%r1, "
        "%r1}], [%r1];",
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes "
        "[%r1], [%rd1, {%r1, %r1, %r1, %r1, %r1}], [%r1];",
        "vmad.s32.s32.s32 %r1, %r1, %r1;", "vadd.s32.s32.s32 %r1, %r1;",
        "vabsdiff4.u32.u32.u32 %r1, %r1;", "add.u32 5, %r1, %r1;"}) {
    Diagnostic error;
    const auto program = Program::parse(
        std::string(kHead) + ".visible .entry k()\n{\n  .reg .b32 %r<2>;\n  .reg .b64 %rd<2>;\n  " +
            line + "\n  ret;\n}\n",
        &error);
    if (program != nullptr) {
      const auto code = LoadedCode::load(program, nullptr);
      EXPECT_EQ(code->compile(0, {1, 1, 1}, &error), nullptr) << line;
    }
    EXPECT_NE(error.text, "") << line;
  }
}

// With the compilers busy, code that is there can only have come from the disk. Its variable lies
// elsewhere than when it was compiled.
TEST(Compiling, CodeFromTheDiskServesOtherAddresses) {
  const std::string text = counting_kernel("kept");
  uint32_t first = 10, second = 20;
  Diagnostic error;
  {
    const auto code = LoadedCode::load(parse(text), counter_at(&first));
    const CompiledKernel* const kernel = code->compile(0, {1, 1, 1}, &error);
    ASSERT_NE(kernel, nullptr) << error.text;
    EXPECT_EQ(run_once(*kernel), 11u);
  }
  // Once both compilers are busy with this, they have stored what they made before.
  BusyCompilers busy;
  const auto code = LoadedCode::load(parse(text), counter_at(&second));
  const auto kernel = code->prepare(0, {1, 1, 1}, &error);
  ASSERT_NE(kernel, nullptr) << error.text;
  ASSERT_TRUE(kernel->readiness.ready());
  EXPECT_EQ(run_once(*kernel), 21u);
  EXPECT_EQ(second, 21u);
  EXPECT_EQ(first, 11u);
  const auto other = code->prepare(0, {32, 1, 1}, &error);
  EXPECT_FALSE(other->readiness.ready()) << "another shape of block is another variant";
}

// out = whether the address in `counter` lies in the module's constants
constexpr char kAsking[] = R"(
.const .align 4 .u32 table = 5;
.visible .global .align 8 .u64 counter;
.visible .entry asking(.param .u64 out)
{
  .reg .pred %p;
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.global.u64 %rd1, [counter];
  isspacep.const %p, %rd1;
  selp.u32 %r1, 1, 0, %p;
  ld.param.u64 %rd2, [out];
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

TEST(Compiling, CodeFromTheDiskKnowsWhereConstantsLie) {
  uint32_t first = 5, second = 5;
  for (uint32_t* table : {&first, &second}) {
    uint64_t where = 0;
    const auto code = LoadedCode::load(parse(kAsking), [&](std::string_view name) {
      return reinterpret_cast<uint64_t>(name == "table" ? static_cast<void*>(table) : &where);
    });
    Diagnostic error;
    const CompiledKernel* const kernel = code->compile(0, {1, 1, 1}, &error);
    ASSERT_NE(kernel, nullptr) << error.text;
    const BusyCompilers stored;
    where = reinterpret_cast<uint64_t>(table);
    EXPECT_EQ(run_once(*kernel), 1u);
    where = reinterpret_cast<uint64_t>(table == &first ? &second : &first);
    EXPECT_EQ(run_once(*kernel), 0u);
  }
}

// An unsigned 32-bit index that wraps inside a warp, widened in three ways: lanes behind the wrap
// are at the start of the array, not 16 GiB behind it.
constexpr char kWrapping[] = R"(
.visible .entry wrapping(.param .u64 out, .param .u32 first)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [first];
  mov.u32 %r2, %tid.x;
  add.u32 %r3, %r1, %r2;
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2;
  cvt.u64.u32 %rd4, %r3;
  shl.b64 %rd5, %rd4, 2;
  add.s64 %rd6, %rd1, %rd5;
  st.global.u32 [%rd6+256], %r2;
  mad.wide.u32 %rd7, %r3, 4, %rd1;
  st.global.u32 [%rd7+512], %r2;
  ret;
}
)";

TEST(Affine, UnsignedIndicesWrapInsideAWarp) {
  constexpr uint64_t kReach = (uint64_t{1} << 34) + 4096;  // 2^32 elements of 4 bytes
  void* const at = ::mmap(nullptr, kReach, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) GTEST_SKIP() << "no 16 GiB of addresses";
  auto* const low = static_cast<uint32_t*>(at);
  auto* const high = low + (uint64_t{1} << 32) - 16;
  const auto code = LoadedCode::load(parse(kWrapping), nullptr);
  Diagnostic error;
  for (uint32_t threads : {32u, 64u, 48u}) {
    std::memset(low, 0xff, 4096);
    std::memset(high, 0xff, 4096);
    const CompiledKernel* const kernel = code->compile(0, {threads, 1, 1}, &error);
    ASSERT_NE(kernel, nullptr) << error.line << ": " << error.text;
    struct {
      uint32_t* out;
      uint32_t first;
    } params{low, 0xfffffff0u};
    GridParams grid;
    grid.block = {threads, 1, 1};
    grid.params = reinterpret_cast<const uint8_t*>(&params);
    BlockRunner runner;
    ASSERT_TRUE(runner.begin(*kernel, grid, {0, 0, 0}, 0));
    ASSERT_EQ(runner.run(), BlockStep::kFinished) << runner.fault().text;
    for (uint32_t way = 0; way < 3; ++way) {
      for (uint32_t i = 0; i < 16; ++i)
        EXPECT_EQ(high[way * 64 + i], i) << threads << " threads, way " << way;
      for (uint32_t i = 16; i < threads; ++i)
        EXPECT_EQ(low[way * 64 + i - 16], i) << threads << " threads, way " << way;
    }
  }
  ::munmap(at, kReach);
}

}  // namespace
}  // namespace vgpu::softgpu
