// Random programs run by warps of 32 lanes and thread by thread must leave the same memory: the two
// share no masks, no frontiers and no affine registers. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <random>

#include "executor.h"

namespace vgpu::softgpu {
namespace {

constexpr uint32_t kThreads = 96, kWords = 14;

// Straight-line code, guarded instructions, branches that split the warp, and loops that lanes
// leave at different times. Registers: %r0-7 words, %q0-3 long words, %f0-3 singles, %p0-3.
class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  std::string program() {
    text_ =
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param "
        ".u64 d)\n{\n  .local .align 8 .b8 room[64];\n  .reg .pred %p<4>;\n  .reg .b32 %r<8>, "
        "%c<4>, "
        "%n, %t, %x;\n  .reg .b64 %q<4>, %a, %d, %by, %l;\n  .reg .f32 %f<4>;\n"
        "  ld.param.u64 %a, [a];\n  ld.param.u64 %d, [d];\n  mov.u32 %t, %tid.x;\n"
        "  mul.wide.u32 %by, %t, 4;\n  add.s64 %a, %a, %by;\n  mov.u64 %l, room;\n"
        "  ld.global.u32 %r0, [%a];\n  mov.u32 %r1, %t;\n  mov.u32 %r2, %ntid.x;\n"
        "  mov.u32 %r3, 77;\n  mov.u32 %r4, %laneid;\n  not.b32 %r5, %r0;\n"
        "  mul.lo.u32 %r6, %t, 12;\n  mov.u32 %r7, %ctaid.x;\n";
    for (int i = 0; i < 4; ++i) {
      const std::string n = std::to_string(i);
      text_ += "  cvt.u64.u32 %q" + n + ", %r" + n + ";\n  cvt.rn.f32.s32 %f" + n + ", %r" + n +
               ";\n  setp.lt.u32 %p" + n + ", %r" + n + ", %r" + std::to_string(i + 3) + ";\n";
    }
    statements(24, 0);
    finish();
    return text_;
  }

 private:
  uint32_t pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  std::string reg(const char* kind, uint32_t count) {
    return std::string("%") + kind + std::to_string(pick(count));
  }
  std::string word() {
    return pick(5) == 0 ? std::to_string(static_cast<int32_t>(random_()) >> pick(32)) : reg("r", 8);
  }

  void statements(int count, int depth) {
    for (int i = 0; i < count; ++i) {
      const uint32_t kind = pick(depth < 3 ? 12 : 9);
      if (kind == 10)
        branch(depth);
      else if (kind == 11)
        loop(depth);
      else
        instruction();
    }
  }

  void instruction() {
    static const char* const kBinary[] = {
        "add.u32",    "sub.u32",  "mul.lo.u32",  "mul.hi.s32",
        "and.b32",    "or.b32",   "xor.b32",     "min.s32",
        "max.u32",    "shl.b32",  "shr.u32",     "shr.s32",
        "add.cc.u32", "addc.u32", "add.sat.s32", "vadd.u32.u32.s32.sat"};
    const std::string guard =
        pick(4) == 0 ? "  @" + std::string(pick(2) != 0 ? "!" : "") + reg("p", 4) + " " : "  ";
    auto line = [&](const std::string& text) { text_ += guard + text + ";\n"; };
    switch (pick(9)) {
      case 0:
        return line("mad.lo.s32 " + reg("r", 8) + ", " + word() + ", " + word() + ", " + word());
      case 1:
        return line("setp." + std::string(pick(2) != 0 ? "lt.s32 " : "ne.u32 ") + reg("p", 4) +
                    ", " + reg("r", 8) + ", " + word());
      case 2:
        return line("selp.b32 " + reg("r", 8) + ", " + word() + ", " + word() + ", " + reg("p", 4));
      case 3:
        return line("mul.wide.u32 " + reg("q", 4) + ", " + reg("r", 8) + ", " + word());
      case 4:
        return line("fma.rn.f32 " + reg("f", 4) + ", " + reg("f", 4) + ", " + reg("f", 4) + ", " +
                    reg("f", 4));
      case 5:
        return line("cvt.rzi.s32.f32 " + reg("r", 8) + ", " + reg("f", 4));
      case 6:
        return line("add.s64 " + reg("q", 4) + ", " + reg("q", 4) + ", " + reg("q", 4));
      case 7:
        return memory(guard);
      default:
        return line(kBinary[pick(std::size(kBinary))] + std::string(" ") + reg("r", 8) + ", " +
                    reg("r", 8) + ", " + word());
    }
  }

  // A place in the thread's own memory that differs from lane to lane.
  void memory(const std::string& guard) {
    text_ += "  and.b32 %x, " + reg("r", 8) +
             ", 15;\n  mul.wide.u32 %by, %x, 4;\n"
             "  add.s64 %by, %by, %l;\n";
    text_ += guard +
             (pick(2) != 0 ? "st.local.u32 [%by], " + reg("r", 8)
                           : "ld.local.u32 " + reg("r", 8) + ", [%by]") +
             ";\n";
  }

  void branch(int depth) {
    const std::string other = "$L" + std::to_string(++labels_);
    const std::string end = "$L" + std::to_string(++labels_);
    text_ += "  @" + reg("p", 4) + " bra " + other + ";\n";
    statements(4, depth + 1);
    text_ += "  bra " + end + ";\n" + other + ":\n";
    statements(3, depth + 1);
    text_ += end + ":\n";
  }

  void loop(int depth) {
    const std::string begin = "$L" + std::to_string(++labels_);
    const std::string c = "%c" + std::to_string(depth);
    text_ += "  and.b32 " + c + ", " + reg("r", 8) + ", " + (pick(2) != 0 ? "7" : "3") + ";\n";
    text_ += begin + ":\n";
    statements(4, depth + 1);
    // The register of the loop's own predicate may be written inside: it is set again here.
    text_ += "  sub.u32 " + c + ", " + c + ", 1;\n  setp.gt.s32 %p0, " + c + ", 0;\n  @%p0 bra " +
             begin + ";\n";
  }

  // Every register to memory; NaN has one pattern.
  void finish() {
    text_ += "  mov.u32 %n, " + std::to_string(kWords * 4) +
             ";\n  mul.wide.u32 %by, %t, %n;\n"
             "  add.s64 %d, %d, %by;\n";
    uint32_t at = 0;
    auto store = [&](const std::string& value) {
      text_ += "  st.global.b32 [%d+" + std::to_string(at) + "], " + value + ";\n";
      at += 4;
    };
    for (int i = 0; i < 8; ++i) store("%r" + std::to_string(i));
    for (int i = 0; i < 4; ++i) {
      const std::string f = "%f" + std::to_string(i);
      text_ += "  setp.nan.f32 %p3, " + f + ", " + f + ";\n  selp.f32 " + f + ", 0f7FFFFFFF, " + f +
               ", %p3;\n";
      if (i < 2) store(f);
    }
    for (int i = 0; i < 4; ++i) {
      text_ += "  cvt.u32.u64 %x, %q" + std::to_string(i) + ";\n";
      store("%x");
    }
    text_ += "  ret;\n}\n";
  }

  std::mt19937_64 random_;
  std::string text_;
  int labels_ = 0;
};

std::vector<uint32_t> run(TestModule* module, Lanes lanes, uint32_t threads, std::string* error) {
  std::vector<uint32_t> a(kThreads), d(kThreads * kWords, 0xcdcdcdcd);
  std::mt19937 random(7);
  for (uint32_t& v : a) v = static_cast<uint32_t>(random());
  const uint64_t params[2] = {reinterpret_cast<uint64_t>(a.data()),
                              reinterpret_cast<uint64_t>(d.data())};
  Launch launch;
  launch.block.x = threads;
  launch.params = params;
  if (!module->run(0, lanes, launch, error)) d.clear();
  return d;
}

void compare_seed(uint64_t seed) {
  const std::string text = Generator(seed).program();
  std::string error;
  auto module = TestModule::load(text, &error);
  ASSERT_NE(module, nullptr) << "seed " << seed << ": " << error;
  for (const uint32_t threads : {96u, 45u}) {
    const auto warps = run(module.get(), Lanes::kWarp, threads, &error);
    ASSERT_FALSE(warps.empty()) << "seed " << seed << ": " << error << "\n" << text;
    const auto single = run(module.get(), Lanes::kOne, threads, &error);
    ASSERT_FALSE(single.empty()) << "seed " << seed << ": " << error << "\n" << text;
    for (size_t i = 0; i < warps.size(); ++i) {
      ASSERT_EQ(warps[i], single[i]) << "seed " << seed << ", " << threads << " threads, thread "
                                     << i / kWords << " word " << i % kWords << "\n"
                                     << text;
    }
  }
}

class RandomPrograms : public testing::TestWithParam<uint64_t> {};

// VGPU_KERNEL_SEEDS programs for each first seed; many under the label slow.
TEST_P(RandomPrograms, AgreeAtOneLane) {
  const char* count = std::getenv("VGPU_KERNEL_SEEDS");
  const uint64_t seeds = count != nullptr ? std::strtoull(count, nullptr, 0) : 4;
  for (uint64_t i = 0; i < seeds && !HasFatalFailure(); ++i) compare_seed(GetParam() * 1000 + i);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, testing::Values(1u, 2u, 3u, 4u));

}  // namespace
}  // namespace vgpu::softgpu
