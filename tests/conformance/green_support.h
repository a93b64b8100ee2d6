// Green contexts of a device, and a kernel that says where its blocks run.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_CONFORMANCE_GREEN_SUPPORT_H_
#define VGPU_TESTS_CONFORMANCE_GREEN_SUPPORT_H_

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "fixture.h"

namespace vgpu::conformance {

// Every block writes the SM that it runs on, after a while, so that all SMs get some.
inline constexpr char kWhere[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry where(.param .u64 data)
{
  .reg .u64 %a, %o;
  .reg .u32 %b, %s, %i;
  .reg .pred %p;
  ld.param.u64 %a, [data];
  mov.u32 %b, %ctaid.x;
  mov.u32 %i, 0;
LOOP:
  add.u32 %i, %i, 1;
  setp.lt.u32 %p, %i, 20000;
  @%p bra LOOP;
  mov.u32 %s, %smid;
  mul.wide.u32 %o, %b, 4;
  add.u64 %a, %a, %o;
  st.global.u32 [%a], %s;
  ret;
}
)";
inline constexpr uint32_t kBlocks = 200;

using Sms = std::set<uint32_t>;

class GreenTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (HasFatalFailure()) return;
    const CUresult served =
        driver().cuDeviceGetDevResource(device_, &all_, CU_DEV_RESOURCE_TYPE_SM);
    if (served == CUDA_ERROR_NOT_SUPPORTED) GTEST_SKIP() << "the driver has no green contexts";
    ASSERT_EQ(served, CUDA_SUCCESS);
    ASSERT_OK(cuModuleLoadData(&where_, kWhere));
  }
  void TearDown() override {
    for (const CUgreenCtx each : made_) EXPECT_OK(cuGreenCtxDestroy(each));
    if (where_ != nullptr) EXPECT_OK(cuModuleUnload(where_));
    KernelTest::TearDown();
  }

  bool can_split() const { return all_.sm.smCount >= 2 * all_.sm.minSmPartitionSize; }
  // Two groups of the least size.
  void split(CUdevResource (&groups)[2], CUdevResource* remaining = nullptr) {
    unsigned count = 2;
    ASSERT_OK(cuDevSmResourceSplitByCount(groups, &count, &all_, remaining, 0, 1));
    ASSERT_EQ(count, 2u);
  }
  CUgreenCtx make(CUdevResource* resources, unsigned count = 1) {
    CUdevResourceDesc descriptor = nullptr;
    CUgreenCtx green = nullptr;
    EXPECT_OK(cuDevResourceGenerateDesc(&descriptor, resources, count));
    EXPECT_OK(cuGreenCtxCreate(&green, descriptor, device_, CU_GREEN_CTX_DEFAULT_STREAM));
    if (green != nullptr) made_.push_back(green);
    return green;
  }
  CUstream stream_of(CUgreenCtx green) {
    CUstream stream = nullptr;
    EXPECT_OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    return stream;
  }
  CUcontext view_of(CUgreenCtx green) {
    CUcontext view = nullptr;
    EXPECT_OK(cuCtxFromGreenCtx(&view, green));
    return view;
  }
  void end(CUgreenCtx green) {
    std::erase(made_, green);
    EXPECT_OK(cuGreenCtxDestroy(green));
  }
  CUfunction where() {
    CUfunction found = nullptr;
    EXPECT_OK(cuModuleGetFunction(&found, where_, "where"));
    return found;
  }
  // Where blocks run that are launched in `stream` of the current context.
  Sms places(CUstream stream) {
    const Words words(kBlocks);
    return places(stream, words);
  }
  // The same into memory that stays: giving it back waits for whatever runs.
  Sms places(CUstream stream, const Words& words) {
    CUdeviceptr address = words.at();
    void* params[] = {&address};
    EXPECT_OK(cuLaunchKernel(where(), kBlocks, 1, 1, 32, 1, 1, 0, stream, params, nullptr));
    EXPECT_OK(cuStreamSynchronize(stream));
    const std::vector<uint32_t> values = words.read();
    return Sms(values.begin(), values.end());
  }

  CUdevResource all_ = {};
  CUmodule where_ = nullptr;
  std::vector<CUgreenCtx> made_;
};
#define SKIP_UNLESS_IT_CAN_BE_SPLIT() \
  if (!can_split()) GTEST_SKIP() << "too few multiprocessors"

inline Sms both(const Sms& one, const Sms& other) {
  Sms common;
  std::set_intersection(one.begin(), one.end(), other.begin(), other.end(),
                        std::inserter(common, common.begin()));
  return common;
}

}  // namespace vgpu::conformance

#endif  // VGPU_TESTS_CONFORMANCE_GREEN_SUPPORT_H_
