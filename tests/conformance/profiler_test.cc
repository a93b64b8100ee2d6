// The profiler's switch: it needs a context, and nothing else.
// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

namespace vgpu::conformance {
namespace {

using ProfilerTest = ContextTest;

TEST_F(ProfilerTest, StartAndStop) {
  EXPECT_OK(cuProfilerStop());
  EXPECT_OK(cuProfilerStart());
  EXPECT_OK(cuProfilerStart());
  EXPECT_OK(cuProfilerStop());
  EXPECT_OK(cuCtxSetCurrent(nullptr));
  EXPECT_CU(cuProfilerStart(), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuProfilerStop(), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_OK(cuCtxSetCurrent(context_));
}

}  // namespace
}  // namespace vgpu::conformance
