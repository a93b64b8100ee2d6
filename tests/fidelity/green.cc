// Green contexts and resources of multiprocessors.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr auto kSm = CU_DEV_RESOURCE_TYPE_SM;
constexpr auto kNoType = static_cast<CUdevResourceType>(77);
constexpr auto kNotValid = CU_DEV_RESOURCE_TYPE_INVALID;
constexpr unsigned kDefaultStream = CU_GREEN_CTX_DEFAULT_STREAM;
constexpr CUdevice kFar = 7;
constexpr CUresult kType = CUDA_ERROR_INVALID_RESOURCE_TYPE;
constexpr CUresult kNoAffinity = CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;

CUdevResource out[2];
CUdevResource none = {};
CUgreenCtx green = nullptr;
CUdevResourceDesc descriptor = nullptr;
CUexecAffinityParam affinity = {};

CUdevResource* all(World& w) {
  static CUdevResource whole;
  (void)w.cu->cuDeviceGetDevResource(w.device, &whole, kSm);
  return &whole;
}
CUexecAffinityParam* of_no_kind() {
  static CUexecAffinityParam param;
  param.type = static_cast<CUexecAffinityType>(55);
  return &param;
}

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuDeviceGetDevResource(0, out, kSm)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxGetDevResource(World::garbage<CUcontext>(), out, kSm)),
    ROW(kFresh, kNotInit, kDocumented,
        cuGreenCtxGetDevResource(World::garbage<CUgreenCtx>(), out, kSm)),
    ROW(kFresh, kNotInit, kDocumented,
        cuDevSmResourceSplitByCount(nullptr, &w.u, out, nullptr, 0, 1)),
    ROW(kFresh, kNotInit, kDocumented, cuDevResourceGenerateDesc(&descriptor, out, 1)),
    ROW(kFresh, kNotInit, kDocumented, cuGreenCtxCreate(&green, nullptr, 0, kDefaultStream)),
    ROW(kFresh, kNotInit, kDocumented, cuGreenCtxDestroy(World::garbage<CUgreenCtx>())),
    ROW(kFresh, kNotInit, kDocumented, cuCtxFromGreenCtx(&w.c, World::garbage<CUgreenCtx>())),
    ROW(kFresh, kNotInit, kDocumented, cuGreenCtxGetId(nullptr, &w.ull)),
    ROW(kFresh, kNotInit, kDocumented,
        cuGreenCtxRecordEvent(World::garbage<CUgreenCtx>(), w.event)),
    ROW(kFresh, kNotInit, kDocumented, cuGreenCtxWaitEvent(World::garbage<CUgreenCtx>(), w.event)),
    ROW(kFresh, kNotInit, kDocumented,
        cuGreenCtxStreamCreate(&w.s, World::garbage<CUgreenCtx>(), CU_STREAM_NON_BLOCKING, 0)),
    ROW(kFresh, kNotInit, kDocumented,
        cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT)),

    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetDevResource(kFar, out, kSm)),
    ROW(kNoContext, kDevice, kDocumented, cuDeviceGetDevResource(-1, out, kSm)),
    ROW(kNoContext, kDevice, kDocumented, cuGreenCtxCreate(&green, nullptr, kFar, kDefaultStream)),
    ROW(kNoContext, kContext, kDocumented, cuGreenCtxGetId(nullptr, &w.ull)),
    ROW(kNoContext, kContext, kDocumented,
        cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT)),

    ROW(kReady, kValue, kDocumented, cuDeviceGetDevResource(w.device, nullptr, kSm)),
    ROW(kReady, kType, kDocumented, cuDeviceGetDevResource(w.device, out, kNotValid)),
    ROW(kReady, kType, kDocumented, cuDeviceGetDevResource(w.device, out, kNoType)),
    ROW(kReady, kValue, kDocumented, cuCtxGetDevResource(w.context, nullptr, kSm)),
    ROW(kReady, kType, kDocumented, cuCtxGetDevResource(w.context, out, kNoType)),
    ROW(kReady, kContext, kDocumented, cuCtxGetDevResource(World::garbage<CUcontext>(), out, kSm)),
    ROW(kReady, kContext, kDocumented,
        cuGreenCtxGetDevResource(World::garbage<CUgreenCtx>(), out, kSm)),
    ROW(kReady, kValue, kDocumented,
        cuDevSmResourceSplitByCount(out, nullptr, all(w), nullptr, 0, 1)),
    ROW(kReady, kValue, kDocumented,
        cuDevSmResourceSplitByCount(nullptr, &w.u, nullptr, nullptr, 0, 1)),
    ROW(kReady, kValue, kDocumented,
        cuDevSmResourceSplitByCount(nullptr, &w.u, all(w), nullptr, 0x80, 1)),
    ROW(kReady, kValue, kDocumented,
        cuDevSmResourceSplitByCount(nullptr, &w.u, all(w), nullptr, 0, 100000)),
    ROW(kReady, kType, kDocumented,
        cuDevSmResourceSplitByCount(nullptr, &w.u, &none, nullptr, 0, 0)),
    ROW(kReady, kValue, kDocumented, cuDevResourceGenerateDesc(nullptr, all(w), 1)),
    ROW(kReady, kValue, kDocumented, cuDevResourceGenerateDesc(&descriptor, nullptr, 1)),
    ROW(kReady, kValue, kDocumented, cuDevResourceGenerateDesc(&descriptor, all(w), 0)),
    ROW(kReady, kType, kDocumented, cuDevResourceGenerateDesc(&descriptor, &none, 1)),
    ROW(kReady, kValue, kOurs, cuGreenCtxCreate(&green, nullptr, w.device, kDefaultStream)),
    ROW(kReady, kValue, kOurs,
        cuGreenCtxCreate(&green, World::garbage<CUdevResourceDesc>(), w.device, kDefaultStream)),
    ROW(kReady, kContext, kDocumented, cuGreenCtxDestroy(World::garbage<CUgreenCtx>())),
    ROW(kReady, kContext, kDocumented, cuGreenCtxDestroy(nullptr)),
    ROW(kReady, kContext, kDocumented, cuCtxFromGreenCtx(&w.c, World::garbage<CUgreenCtx>())),
    ROW(kReady, kContext, kDocumented, cuGreenCtxGetId(nullptr, &w.ull)),
    ROW(kReady, kContext, kDocumented,
        cuGreenCtxRecordEvent(World::garbage<CUgreenCtx>(), w.event)),
    ROW(kReady, kContext, kDocumented, cuGreenCtxWaitEvent(World::garbage<CUgreenCtx>(), w.event)),
    ROW(kReady, kContext, kDocumented,
        cuGreenCtxStreamCreate(&w.s, World::garbage<CUgreenCtx>(), CU_STREAM_NON_BLOCKING, 0)),
    ROW(kReady, kValue, kOurs, cuStreamGetGreenCtx(w.stream, nullptr)),
    ROW(kReady, kValue, kDocumented, cuCtxGetExecAffinity(nullptr, CU_EXEC_AFFINITY_TYPE_SM_COUNT)),
    ROW(kReady, kValue, kDocumented, cuCtxCreate_v3(&w.c, nullptr, 1, 0, w.device)),
    ROW(kReady, kValue, kDocumented, cuCtxCreate_v3(&w.c, &affinity, -1, 0, w.device)),
    ROW(kReady, kNoAffinity, kDocumented, cuCtxCreate_v3(&w.c, of_no_kind(), 1, 0, w.device)),
};

}  // namespace

const std::span<const Row> kGreenRows = kRows;

}  // namespace vgpu::fidelity
