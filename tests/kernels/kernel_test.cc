// Every PTX file of this folder through parser, passes, code generation and block execution: by
// warps and, where the file allows it, thread by thread. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "kernel_file.h"

namespace vgpu::softgpu {
namespace {

std::vector<std::string> files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(VGPU_KERNELS)) {
    if (entry.path().extension() == ".ptx") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool close(const Buffer& want, const Buffer& got, size_t i, double near) {
  const uint8_t *a = want.data() + i * want.element, *b = got.data() + i * got.element;
  if (std::memcmp(a, b, want.element) == 0) return true;
  if (near == 0 || want.type[0] != 'f') return false;
  const double x = want.element == 4 ? want.as<float>()[i] : want.as<double>()[i];
  const double y = want.element == 4 ? got.as<float>()[i] : got.as<double>()[i];
  return std::abs(x - y) <= near * std::max(std::abs(x), 1e-30);
}

std::string shown(const Buffer& b, size_t i) {
  if (b.type == "f32") return std::to_string(b.as<float>()[i]);
  if (b.type == "f64") return std::to_string(b.as<double>()[i]);
  std::string text = "0x";
  char byte[3];
  for (size_t k = b.element; k-- > 0;) {
    std::snprintf(byte, sizeof byte, "%02x", b.data()[i * b.element + k]);
    text += byte;
  }
  return text;
}

// Parameters as the launch packs them: pointers to fresh copies, or values.
std::vector<uint64_t> packed(std::vector<Buffer>* buffers, const KernelFile& file) {
  std::vector<uint64_t> words(file.parameters.size() * 2 + 1);
  size_t at = 0;
  for (size_t i = 0; i < file.parameters.size(); ++i) {
    Buffer& b = (*buffers)[i];
    const size_t size = file.parameters[i].by_value ? b.element : 8;
    at = (at + size - 1) / size * size;
    const uint64_t address = reinterpret_cast<uint64_t>(b.data());
    std::memcpy(reinterpret_cast<uint8_t*>(words.data()) + at,
                file.parameters[i].by_value ? b.data() : reinterpret_cast<const uint8_t*>(&address),
                size);
    at += size;
  }
  return words;
}

void run_and_compare(const KernelFile& file, Lanes lanes) {
  std::string error;
  auto module = TestModule::load(file.ptx, &error);
  ASSERT_NE(module, nullptr) << error;
  const int kernel = module->kernel(file.entry);
  ASSERT_GE(kernel, 0) << "no kernel " << file.entry;
  std::vector<Buffer> buffers;
  for (const auto& p : file.parameters) buffers.push_back(p.before);
  const std::vector<uint64_t> params = packed(&buffers, file);
  Launch launch = file.launch;
  launch.params = params.data();
  ASSERT_TRUE(module->run(kernel, lanes, launch, &error)) << error;
  for (size_t p = 0; p < buffers.size(); ++p) {
    if (!file.parameters[p].is_output) continue;
    const Buffer &want = file.parameters[p].after, &got = buffers[p];
    for (size_t i = 0; i < want.count; ++i) {
      ASSERT_TRUE(close(want, got, i, file.near))
          << want.name << "[" << i << "] is " << shown(got, i) << ", not " << shown(want, i);
    }
  }
}

class KernelFiles : public testing::TestWithParam<std::string> {};

TEST_P(KernelFiles, GiveWhatTheySay) {
  KernelFile file;
  std::string error;
  const std::string path = std::string(VGPU_KERNELS) + "/" + GetParam() + ".ptx";
  ASSERT_TRUE(read_kernel_file(path, &file, &error)) << error;
  {
    SCOPED_TRACE("by warps of 32 lanes");
    run_and_compare(file, Lanes::kWarp);
  }
  {
    SCOPED_TRACE("interrupted in every turn of a loop");
    run_and_compare(file, Lanes::kInterrupted);
  }
  if (file.whole_warps || HasFatalFailure()) return;
  SCOPED_TRACE("thread by thread");
  run_and_compare(file, Lanes::kOne);
}

INSTANTIATE_TEST_SUITE_P(Ptx, KernelFiles, testing::ValuesIn(files()),
                         [](const auto& one) { return one.param; });

TEST(Kernels, RowsOfEveryWidth) {
  KernelFile file;
  std::string error;
  ASSERT_TRUE(read_kernel_file(std::string(VGPU_KERNELS) + "/narrow_rows.ptx", &file, &error));
  for (const uint32_t width : {8u, 12u, 24u, 32u, 48u, 96u}) {
    SCOPED_TRACE(width);
    file.launch.block = {width, 96 / width, 1};
    file.parameters[0].before.as<uint32_t>()[0] = width;
    for (auto& p : file.parameters) {
      if (!p.is_output) continue;
      std::fill(p.after.words.begin(), p.after.words.end(), 0);
      ASSERT_TRUE(apply_reference(p.after.count == 96 ? "narrow_sums" : "narrow_pairs",
                                  file.parameters, &p.after));
    }
    run_and_compare(file, Lanes::kWarp);
  }
}

TEST(Kernels, UnknownInstructionsAreRefusedWithTheirPlace) {
  const std::string head = ".version 9.0\n.target sm_75\n.address_size 64\n";
  const char* const texts[] = {"frobnicate.u32", "wgmma.fence.sync.aligned",
                               "tcgen05.wait::ld.sync.aligned"};
  for (const std::string text : texts) {
    Diagnostic error;
    const auto program =
        Program::parse(head + ".visible .entry k()\n{\n  " + text + ";\n  ret;\n}\n", &error);
    EXPECT_EQ(program, nullptr) << text;
    EXPECT_EQ(error.line, 6) << text;
    EXPECT_EQ(error.column, 3) << text;
    EXPECT_NE(error.text.find("'" + text + "'"), std::string::npos) << error.text;
  }
}

TEST(Kernels, FormsThatAreRefusedHaveTheirPlace) {
  Diagnostic error;
  const auto program = Program::parse(
      ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<2>;\n"
      ".reg .b64 %rd<2>;\n    multimem.red.relaxed.gpu.global.add.u32 [%rd1], %r1;\nret;\n}\n",
      &error);
  ASSERT_NE(program, nullptr) << error.text;
  const std::vector<Diagnostic> refused = program->refusals();
  ASSERT_FALSE(refused.empty());
  EXPECT_EQ(refused[0].line, 8);
  EXPECT_EQ(refused[0].column, 5);
}

// A module whose kernel `k` has this text, and is run by one warp.
bool runs(const std::string& text, std::string* error) {
  const std::string head =
      ".version 9.0\n.target sm_100\n.address_size 64\n.visible .entry k()\n{\n"
      ".reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n";
  auto module = TestModule::load(head + text + "\nret;\n}\n", error);
  return module != nullptr && module->run(0, Lanes::kWarp, Launch{}, error);
}

TEST(Kernels, FormsThatWouldBeWrongAreRefused) {
  for (const char* text :
       {"add.sat.u32 %r1, %r2, %r3;", "sub.sat.s64 %rd1, %rd2, %rd3;",
        "mad.lo.sat.s32 %r1, %r2, %r3, %r4;", "st.bulk.shared::cta [%r1], %rd1, 1;"}) {
    std::string error;
    EXPECT_FALSE(runs(text, &error)) << text;
    EXPECT_NE(error.find("is not supported"), std::string::npos) << text << " " << error;
  }
}

TEST(Kernels, BranchesNeedTheirLabels) {
  for (const char* text :
       {"bra gone;", "brx.idx %r1, gone;", "t: .branchtargets gone;\nbrx.idx %r1, t;",
        "a:\nt: .branchtargets a, %r1;\nbrx.idx %r1, t;", "bra %r1;", "switch %r1;",
        "stackcheck %r1;", "frame.u64 %rd1, %r1;", "mov.v2.u32 %r1, {{%r1, %r2}, %r3};"}) {
    std::string error;
    EXPECT_FALSE(runs(text, &error)) << text;
    EXPECT_NE(error, "") << text;
  }
}

TEST(Kernels, TooFewOperandsAreRefused) {
  for (const char* text : {"add.u32 %r1, %r2;", "mad.lo.s32 %r1, %r2, %r3;", "mov.u32 %r1;",
                           "shl.b32 %r1;", "@%p1 bra;", "setp.eq.u32 %p1;", "ld.global.u32 %r1;"}) {
    std::string error;
    const std::string body = std::string(".reg .pred %p<2>;\n") + text;
    EXPECT_FALSE(runs(body, &error)) << text;
    EXPECT_NE(error.find("has too few operands"), std::string::npos) << text << " " << error;
  }
}

TEST(Kernels, NothingRunsBehindATrap) {
  for (const char* text : {"trap;\nmov.u32 %r1, 5;", "brkpt;\nmov.u32 %r1, 5;"}) {
    std::string error;
    EXPECT_FALSE(runs(text, &error)) << text;
    EXPECT_EQ(error.rfind("trap", 0), 0u) << text << " " << error;
  }
}

TEST(Kernels, AnElementThatDiffersIsSeen) {
  KernelFile file;
  std::string error;
  ASSERT_TRUE(read_kernel_file(std::string(VGPU_KERNELS) + "/vecadd.ptx", &file, &error)) << error;
  Buffer other = file.parameters[2].after;
  other.as<float>()[77] += 1;
  EXPECT_TRUE(close(file.parameters[2].after, other, 76, 0));
  EXPECT_FALSE(close(file.parameters[2].after, other, 77, 0));
  EXPECT_FALSE(close(file.parameters[2].after, other, 77, 1e-9));
}

}  // namespace
}  // namespace vgpu::softgpu
