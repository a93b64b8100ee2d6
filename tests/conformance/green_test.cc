// Green contexts and contexts with some of the SMs: work runs on these and on no other, and all
// else is as in the primary context. SPDX-License-Identifier: Apache-2.0
#include "green_support.h"

namespace vgpu::conformance {
namespace {

TEST_F(GreenTest, ADeviceHasAllItsMultiprocessors) {
  int count = 0;
  ASSERT_OK(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_));
  EXPECT_EQ(all_.type, CU_DEV_RESOURCE_TYPE_SM);
  EXPECT_EQ(all_.sm.smCount, static_cast<unsigned>(count));
  EXPECT_GE(all_.sm.minSmPartitionSize, 1u);
  EXPECT_GE(all_.sm.smCoscheduledAlignment, 1u);
  CUdevResource of_context;
  ASSERT_OK(cuCtxGetDevResource(context_, &of_context, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT_EQ(of_context.sm.smCount, all_.sm.smCount);
}

TEST_F(GreenTest, WhatIsAskedForWronglyIsNotMade) {
  EXPECT_CU(cuDeviceGetDevResource(device_, nullptr, CU_DEV_RESOURCE_TYPE_SM),
            CUDA_ERROR_INVALID_VALUE);
  CUdevResourceDesc descriptor = nullptr;
  ASSERT_OK(cuDevResourceGenerateDesc(&descriptor, &all_, 1));
  CUgreenCtx none = nullptr;
  EXPECT_CU(cuGreenCtxCreate(&none, descriptor, device_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(none, nullptr);
  const CUgreenCtx green = make(&all_);
  CUstream stream = nullptr;
  EXPECT_CU(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_DEFAULT, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(stream, nullptr);
  EXPECT_CU(cuCtxFromGreenCtx(nullptr, green), CUDA_ERROR_INVALID_VALUE);
  end(green);
}

TEST_F(GreenTest, GroupsAndWhatIsLeftAreTheWhole) {
  SKIP_UNLESS_IT_CAN_BE_SPLIT();
  unsigned possible = 0;
  ASSERT_OK(cuDevSmResourceSplitByCount(nullptr, &possible, &all_, nullptr, 0, 1));
  EXPECT_GE(possible, 2u);
  CUdevResource groups[2], remaining = {};
  split(groups, &remaining);
  EXPECT_EQ(groups[0].sm.smCount, groups[1].sm.smCount);
  EXPECT_GE(groups[0].sm.smCount, all_.sm.minSmPartitionSize);
  const unsigned left = remaining.type == CU_DEV_RESOURCE_TYPE_SM ? remaining.sm.smCount : 0;
  EXPECT_EQ(groups[0].sm.smCount + groups[1].sm.smCount + left, all_.sm.smCount);
  unsigned whole = 1;
  CUdevResource one;
  ASSERT_OK(cuDevSmResourceSplitByCount(&one, &whole, &all_, nullptr, 0, all_.sm.smCount));
  EXPECT_EQ(one.sm.smCount, all_.sm.smCount);
  // What was split has to go through a green context first.
  unsigned again = 1;
  EXPECT_CU(cuDevSmResourceSplitByCount(&one, &again, &groups[0], nullptr, 0, 1),
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
}

TEST_F(GreenTest, KernelsRunOnItsMultiprocessorsOnly) {
  SKIP_UNLESS_IT_CAN_BE_SPLIT();
  CUdevResource groups[2];
  split(groups);
  const CUgreenCtx first = make(&groups[0]), second = make(&groups[1]);
  CUdevResource own;
  ASSERT_OK(cuGreenCtxGetDevResource(first, &own, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT_EQ(own.sm.smCount, groups[0].sm.smCount);
  const CUstream one = stream_of(first), other = stream_of(second);
  const Sms of_first = places(one), of_second = places(other);
  EXPECT_LE(of_first.size(), groups[0].sm.smCount);
  EXPECT_LE(of_second.size(), groups[1].sm.smCount);
  EXPECT_THAT(both(of_first, of_second), ::testing::IsEmpty());
  // Its default stream, and a stream that is made while it is current.
  ASSERT_OK(cuCtxPushCurrent_v2(view_of(first)));
  CUstream made = nullptr;
  ASSERT_OK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
  EXPECT_THAT(both(places(nullptr), of_second), ::testing::IsEmpty());
  EXPECT_THAT(both(places(made), of_second), ::testing::IsEmpty());
  CUcontext popped = nullptr;
  ASSERT_OK(cuCtxPopCurrent_v2(&popped));
  EXPECT_EQ(popped, view_of(first));
  for (const CUstream each : {one, other, made}) EXPECT_OK(cuStreamDestroy_v2(each));
}

TEST_F(GreenTest, WorkOfBothIsUnderWayAtTheSameTime) {
  SKIP_UNLESS_IT_CAN_BE_SPLIT();
  CUdevResource groups[2];
  split(groups);
  const CUstream one = stream_of(make(&groups[0])), other = stream_of(make(&groups[1]));
  const Words words(kBlocks);
  {
    Gate held(function("gate"), one);
    EXPECT_FALSE(places(other, words).empty());
    EXPECT_CU(cuStreamQuery(one), CUDA_ERROR_NOT_READY);
  }
  EXPECT_OK(cuStreamDestroy_v2(one));
  EXPECT_OK(cuStreamDestroy_v2(other));
}

TEST_F(GreenTest, GroupsOfOneSplitMakeOneContext) {
  SKIP_UNLESS_IT_CAN_BE_SPLIT();
  CUdevResource groups[2], own;
  split(groups);
  const CUgreenCtx green = make(groups, 2);
  ASSERT_OK(cuGreenCtxGetDevResource(green, &own, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT_EQ(own.sm.smCount, groups[0].sm.smCount + groups[1].sm.smCount);
  unsigned again = 2;
  CUdevResource parts[2];
  EXPECT_OK(cuDevSmResourceSplitByCount(parts, &again, &own, nullptr, 0, 1));  // it has been one
  EXPECT_EQ(again, 2u);
  CUdevResource mixed[2] = {groups[0], all_};
  CUdevResourceDesc descriptor = nullptr;
  EXPECT_CU(cuDevResourceGenerateDesc(&descriptor, mixed, 2),
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
}

TEST_F(GreenTest, OccupancyIsThatOfItsMultiprocessors) {
  SKIP_UNLESS_IT_CAN_BE_SPLIT();
  CUdevResource groups[2];
  split(groups);
  const CUgreenCtx green = make(&groups[0]);
  int whole = 0, part = 0, block = 0, per_sm = 0;
  ASSERT_OK(cuOccupancyMaxPotentialBlockSize(&whole, &block, where(), nullptr, 0, 0));
  ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, where(), 32, 0));
  const CUstream stream = stream_of(green);
  ASSERT_OK(cuCtxPushCurrent_v2(view_of(green)));
  ASSERT_OK(cuOccupancyMaxPotentialBlockSize(&part, &block, where(), nullptr, 0, 0));
  EXPECT_EQ(static_cast<unsigned>(part) * all_.sm.smCount,
            static_cast<unsigned>(whole) * groups[0].sm.smCount);
  const unsigned most = static_cast<unsigned>(per_sm) * groups[0].sm.smCount;
  Words words(most + 1);
  CUdeviceptr address = words.at();
  void* params[] = {&address};
  EXPECT_CU(cuLaunchCooperativeKernel(where(), most + 1, 1, 1, 32, 1, 1, 0, stream, params),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  EXPECT_OK(cuLaunchCooperativeKernel(where(), most, 1, 1, 32, 1, 1, 0, stream, params));
  EXPECT_OK(cuCtxSynchronize());
  ASSERT_OK(cuCtxPopCurrent_v2(nullptr));
  EXPECT_OK(cuStreamDestroy_v2(stream));
}

TEST_F(GreenTest, ItsContextIsThePrimaryOneButForStreams) {
  const CUgreenCtx green = make(&all_), other = make(&all_);
  const CUcontext view = view_of(green);
  EXPECT_NE(view, context_);
  EXPECT_NE(view, view_of(other));
  Words words(16);  // memory, code and events are the primary context's
  words.write(std::vector<uint32_t>(16, 1));
  Event event;
  ASSERT_OK(cuCtxSetCurrent(view));
  CUcontext current = nullptr;
  ASSERT_OK(cuCtxGetCurrent(&current));
  EXPECT_EQ(current, view);
  CUdevice device = -1;
  EXPECT_OK(cuCtxGetDevice(&device));
  EXPECT_EQ(device, device_);
  EXPECT_EQ(launch("add", nullptr, words.at(), 16, 4), CUDA_SUCCESS);
  EXPECT_OK(cuEventRecord(event, nullptr));
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(16, 5));

  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  CUgreenCtx asked = nullptr;
  for (const CUstream each : {stream, CUstream(nullptr), CU_STREAM_LEGACY}) {
    EXPECT_OK(cuStreamGetCtx(each, &current));
    EXPECT_EQ(current, view);
    EXPECT_OK(cuStreamGetCtx_v2(each, &current, &asked));
    EXPECT_EQ(current, context_);
    EXPECT_EQ(asked, green);
    asked = nullptr;
    EXPECT_OK(cuStreamGetGreenCtx(each, &asked));
    EXPECT_EQ(asked, green);
  }
  EXPECT_CU(cuStreamGetCtx_v2(CU_STREAM_PER_THREAD, &current, &asked), CUDA_ERROR_INVALID_HANDLE);
  unsigned long long id = 0, mine = 0, others = 0;
  EXPECT_OK(cuGreenCtxGetId(green, &id));
  EXPECT_OK(cuGreenCtxGetId(nullptr, &mine));
  EXPECT_OK(cuGreenCtxGetId(other, &others));
  EXPECT_EQ(id, mine);
  EXPECT_NE(id, others);

  ASSERT_OK(cuCtxSetCurrent(context_));
  EXPECT_OK(cuStreamGetGreenCtx(nullptr, &asked));
  EXPECT_EQ(asked, nullptr);
  EXPECT_OK(cuStreamGetGreenCtx(stream, &asked));
  EXPECT_EQ(asked, green);
  EXPECT_CU(cuGreenCtxGetId(nullptr, &id), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_OK(cuStreamDestroy_v2(stream));
}

TEST_F(GreenTest, StreamsEndWithIt) {
  const CUgreenCtx green = make(&all_);
  const CUstream stream = stream_of(green);
  const CUcontext view = view_of(green);
  Words words(16);
  ASSERT_EQ(launch("fill", stream, words.at(), 16, 7), CUDA_SUCCESS);
  end(green);
  EXPECT_EQ(words.read(), std::vector<uint32_t>(16, 7));  // what was under way has run
  EXPECT_CU(cuStreamSynchronize(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(launch("fill", stream, words.at(), 16, 8), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_CU(cuStreamDestroy_v2(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_CU(cuGreenCtxDestroy(green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_CU(cuCtxSetCurrent(view), CUDA_ERROR_INVALID_CONTEXT);
  unsigned long long id = 0;
  EXPECT_CU(cuGreenCtxGetId(green, &id), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_F(GreenTest, ItKeepsThePrimaryContextAlive) {
  const CUgreenCtx green = make(&all_);
  ASSERT_OK(cuModuleUnload(std::exchange(module_, nullptr)));
  ASSERT_OK(cuModuleUnload(std::exchange(where_, nullptr)));
  ASSERT_OK(cuDevicePrimaryCtxRelease_v2(device_));
  unsigned flags = 0;
  int active = 0;
  EXPECT_OK(cuDevicePrimaryCtxGetState(device_, &flags, &active));
  EXPECT_EQ(active, 1);
  end(green);
  EXPECT_OK(cuDevicePrimaryCtxGetState(device_, &flags, &active));
  EXPECT_EQ(active, 0);
  EXPECT_OK(cuDevicePrimaryCtxRetain(&context_, device_));
}

TEST_F(GreenTest, AResetOfThePrimaryContextEndsIt) {
  const CUgreenCtx green = make(&all_);
  const CUstream stream = stream_of(green);
  made_.clear();
  module_ = where_ = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxReset_v2(device_));
  EXPECT_CU(cuGreenCtxDestroy(green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, device_));
  ASSERT_OK(cuCtxSetCurrent(context_));
  EXPECT_CU(cuStreamSynchronize(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  end(make(&all_));  // and another can be made
}

TEST_F(GreenTest, ContextsMayHaveSomeOfTheMultiprocessors) {
  int supported = -1;
  ASSERT_OK(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, device_));
  CUexecAffinityParam wanted = {}, got = {};
  wanted.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
  wanted.param.smCount.val = 1;
  CUcontext context = nullptr;
  if (supported == 0) {
    EXPECT_CU(cuCtxCreate_v3(&context, &wanted, 1, 0, device_),
              CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    EXPECT_CU(cuCtxGetExecAffinity(&got, CU_EXEC_AFFINITY_TYPE_SM_COUNT),
              CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    return;
  }
  ASSERT_OK(cuCtxGetExecAffinity(&got, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
  EXPECT_EQ(got.param.smCount.val, all_.sm.smCount);
  ASSERT_OK(cuCtxCreate_v3(&context, &wanted, 1, 0, device_));
  ASSERT_OK(cuCtxGetExecAffinity(&got, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
  EXPECT_EQ(got.type, CU_EXEC_AFFINITY_TYPE_SM_COUNT);
  EXPECT_GE(got.param.smCount.val, 1u);
  CUdevResource resource;
  ASSERT_OK(cuCtxGetDevResource(context, &resource, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT_EQ(resource.sm.smCount, got.param.smCount.val);
  const CUmodule before = where_;
  ASSERT_OK(cuModuleLoadData(&where_, kWhere));
  EXPECT_LE(places(nullptr).size(), got.param.smCount.val);
  {
    const ::vgpu::conformance::Stream stream;
    EXPECT_LE(places(stream).size(), got.param.smCount.val);
  }
  ASSERT_OK(cuModuleUnload(where_));
  where_ = before;
  ASSERT_OK(cuCtxDestroy_v2(context));

  CUctxCreateParams params = {};
  params.execAffinityParams = &wanted;
  params.numExecAffinityParams = 1;
  ASSERT_OK(cuCtxCreate_v4(&context, &params, 0, device_));
  ASSERT_OK(cuCtxGetExecAffinity(&got, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
  EXPECT_GE(got.param.smCount.val, 1u);
  ASSERT_OK(cuCtxDestroy_v2(context));
}

}  // namespace
}  // namespace vgpu::conformance
