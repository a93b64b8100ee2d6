// Contexts: current, created, primary; limits and preferences.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr auto kStack = CU_LIMIT_STACK_SIZE;
constexpr auto kNoLimit = static_cast<CUlimit>(99);
constexpr auto kNegativeLimit = static_cast<CUlimit>(-1);
constexpr auto kNoCache = static_cast<CUfunc_cache>(9);
constexpr auto kNoBanks = static_cast<CUsharedconfig>(9);
constexpr unsigned kTwoSchedules = CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD;
constexpr unsigned kNoFlag = 0x10000;
constexpr CUdevice kFar = 7;

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuDevicePrimaryCtxRetain(&w.c, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuDevicePrimaryCtxRelease_v2(0)),
    ROW(kFresh, kNotInit, kDocumented, cuDevicePrimaryCtxReset_v2(0)),
    ROW(kFresh, kNotInit, kDocumented, cuDevicePrimaryCtxSetFlags_v2(0, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuDevicePrimaryCtxGetState(0, &w.u, &w.i)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxCreate_v2(&w.c, 0, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxDestroy_v2(World::garbage<CUcontext>())),
    ROW(kFresh, kNotInit, kDocumented, cuCtxPushCurrent_v2(World::garbage<CUcontext>())),
    ROW(kFresh, kNotInit, kDocumented, cuCtxPopCurrent_v2(&w.c)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxSetCurrent(nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxGetCurrent(&w.c)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxGetDevice(&w.d)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxGetFlags(&w.u)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxSetFlags(0)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxGetId(nullptr, &w.ull)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxSynchronize()),
    ROW(kFresh, kNotInit, kDocumented, cuCtxSetLimit(kStack, 1024)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxGetLimit(&w.size, kStack)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxGetCacheConfig(&w.cache)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxGetStreamPriorityRange(&w.i, &w.i2)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxGetApiVersion(nullptr, &w.u)),

    ROW(kNoContext, kOk, kDocumented, cuCtxGetCurrent(&w.c)),
    ROW(kNoContext, kValue, kDocumented, cuCtxGetCurrent(nullptr)),
    ROW(kNoContext, kOk, kDocumented, cuCtxSetCurrent(nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuCtxPopCurrent_v2(&w.c)),
    ROW(kNoContext, kContext, kDocumented, cuCtxGetDevice(&w.d)),
    ROW(kNoContext, kContext, kDocumented, cuCtxGetFlags(&w.u)),
    ROW(kNoContext, kContext, kDocumented, cuCtxSetFlags(0)),
    ROW(kNoContext, kContext, kDocumented, cuCtxGetId(nullptr, &w.ull)),
    ROW(kNoContext, kContext, kDocumented, cuCtxSynchronize()),
    ROW(kNoContext, kContext, kDocumented, cuCtxSetLimit(kStack, 1024)),
    ROW(kNoContext, kContext, kDocumented, cuCtxGetLimit(&w.size, kStack)),
    ROW(kNoContext, kContext, kDocumented, cuCtxGetCacheConfig(&w.cache)),
    ROW(kNoContext, kContext, kDocumented, cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1)),
    ROW(kNoContext, kContext, kDocumented, cuCtxGetStreamPriorityRange(&w.i, &w.i2)),
    ROW(kNoContext, kContext, kDocumented, cuCtxGetApiVersion(nullptr, &w.u)),
    ROW(kNoContext, kDevice, kDocumented, cuDevicePrimaryCtxRetain(&w.c, kFar)),
    ROW(kNoContext, kDevice, kDocumented, cuDevicePrimaryCtxRetain(&w.c, -1)),
    ROW(kNoContext, kValue, kDocumented, cuDevicePrimaryCtxRetain(nullptr, w.device)),
    ROW(kNoContext, kContext, kDocumented, cuDevicePrimaryCtxRelease_v2(w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDevicePrimaryCtxRelease_v2(kFar)),
    ROW(kNoContext, kDevice, kDocumented, cuDevicePrimaryCtxReset_v2(kFar)),
    ROW(kNoContext, kOk, kDocumented, cuDevicePrimaryCtxReset_v2(w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuDevicePrimaryCtxSetFlags_v2(kFar, 0)),
    ROW(kNoContext, kValue, kDocumented, cuDevicePrimaryCtxSetFlags_v2(w.device, kNoFlag)),
    ROW(kNoContext, kValue, kDocumented, cuDevicePrimaryCtxSetFlags_v2(w.device, kTwoSchedules)),
    ROW(kNoContext, kDevice, kDocumented, cuDevicePrimaryCtxGetState(kFar, &w.u, &w.i)),
    ROW(kNoContext, kValue, kDocumented, cuDevicePrimaryCtxGetState(w.device, nullptr, &w.i)),
    ROW(kNoContext, kValue, kDocumented, cuDevicePrimaryCtxGetState(w.device, &w.u, nullptr)),
    ROW(kNoContext, kValue, kDocumented, cuCtxCreate_v2(nullptr, 0, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuCtxCreate_v2(&w.c, 0, kFar)),
    ROW(kNoContext, kDevice, kDocumented, cuCtxCreate_v2(&w.c, 0, -1)),
    ROW(kNoContext, kValue, kDocumented, cuCtxCreate_v2(&w.c, kNoFlag, w.device)),
    ROW(kNoContext, kValue, kDocumented, cuCtxCreate_v2(&w.c, kTwoSchedules, w.device)),
    ROW(kNoContext, kValue, kDocumented, cuCtxCreate_v3(nullptr, nullptr, 0, 0, w.device)),
    ROW(kNoContext, kValue, kDocumented, cuCtxCreate_v3(&w.c, nullptr, 1, 0, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuCtxCreate_v3(&w.c, nullptr, 0, 0, kFar)),
    ROW(kNoContext, kValue, kDocumented, cuCtxCreate_v4(nullptr, nullptr, 0, w.device)),
    ROW(kNoContext, kDevice, kDocumented, cuCtxCreate_v4(&w.c, nullptr, 0, kFar)),
    STEPS(kNoContext, kContext, kDocumented, "cuDevicePrimaryCtxRelease once too often",
          {
            (void)w.cu->cuDevicePrimaryCtxRetain(&w.c, w.device);
            (void)w.cu->cuDevicePrimaryCtxRelease_v2(w.device);
            return w.cu->cuDevicePrimaryCtxRelease_v2(w.device);
          }),

    ROW(kReady, kValue, kDocumented, cuCtxGetCurrent(nullptr)),
    ROW(kReady, kValue, kDocumented, cuCtxGetDevice(nullptr)),
    ROW(kReady, kValue, kDocumented, cuCtxGetFlags(nullptr)),
    ROW(kReady, kValue, kDocumented, cuCtxSetFlags(kNoFlag)),
    ROW(kReady, kValue, kDocumented, cuCtxGetId(w.context, nullptr)),
    ROW(kReady, kContext, kDocumented, cuCtxGetId(w.destroyed, &w.ull)),
    ROW(kReady, kContext, kOurs, cuCtxGetId(World::garbage<CUcontext>(), &w.ull)),
    ROW(kReady, kValue, kDocumented, cuCtxGetApiVersion(w.context, nullptr)),
    ROW(kReady, kContext, kDocumented, cuCtxGetApiVersion(w.destroyed, &w.u)),
    ROW(kReady, kContext, kOurs, cuCtxGetApiVersion(World::garbage<CUcontext>(), &w.u)),
    ROW(kReady, kContext, kDocumented, cuCtxSetCurrent(w.destroyed)),
    ROW(kReady, kContext, kOurs, cuCtxSetCurrent(World::garbage<CUcontext>())),
    ROW(kReady, kContext, kDocumented, cuCtxPushCurrent_v2(w.destroyed)),
    ROW(kReady, kContext, kOurs, cuCtxPushCurrent_v2(World::garbage<CUcontext>())),
    ROW(kReady, kContext, kOurs, cuCtxPushCurrent_v2(nullptr)),
    ROW(kReady, kContext, kDocumented, cuCtxDestroy_v2(w.destroyed)),
    ROW(kReady, kContext, kOurs, cuCtxDestroy_v2(World::garbage<CUcontext>())),
    ROW(kReady, kContext, kOurs, cuCtxDestroy_v2(w.context)),
    ROW(kReady, kContext, kOurs, cuCtxDestroy_v2(nullptr)),
    ROW(kReady, kContext, kDocumented, cuCtxSynchronize_v2(w.destroyed)),
    ROW(kReady, kContext, kOurs, cuCtxSynchronize_v2(World::garbage<CUcontext>())),
    ROW(kReady, kOk, kDocumented, cuCtxSynchronize_v2(w.other)),
    ROW(kReady, kContext, kDocumented, cuCtxGetDevice_v2(&w.d, w.destroyed)),
    ROW(kReady, kContext, kOurs, cuCtxGetDevice_v2(&w.d, World::garbage<CUcontext>())),
    ROW(kReady, kValue, kDocumented, cuCtxGetDevice_v2(nullptr, w.context)),
    ROW(kReady, kValue, kDocumented, cuCtxGetLimit(nullptr, kStack)),
    ROW(kReady, kValue, kDocumented, cuCtxGetLimit(&w.size, kNoLimit)),
    ROW(kReady, kValue, kDocumented, cuCtxGetLimit(&w.size, kNegativeLimit)),
    ROW(kReady, kValue, kDocumented, cuCtxSetLimit(kNoLimit, 1)),
    ROW(kReady, kValue, kDocumented, cuCtxSetLimit(kNegativeLimit, 1)),
    ROW(kReady, kNoMemory, kDocumented, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, size_t{1} << 46)),
    ROW(kReady, CUDA_ERROR_UNSUPPORTED_LIMIT, kDocumented,
        cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 3)),
    ROW(kReady, kValue, kDocumented, cuCtxGetCacheConfig(nullptr)),
    ROW(kReady, kValue, kDocumented, cuCtxSetCacheConfig(kNoCache)),
    ROW(kReady, kValue, kDocumented, cuCtxGetSharedMemConfig(nullptr)),
    ROW(kReady, kValue, kDocumented, cuCtxSetSharedMemConfig(kNoBanks)),
    ROW(kReady, kOk, kDocumented, cuCtxGetStreamPriorityRange(nullptr, nullptr)),
    ROW(kReady, kOk, kDocumented, cuCtxGetStreamPriorityRange(&w.i, nullptr)),
    ROW(kReady, kValue, kDocumented, cuCtxCreate_v2(&w.c, kNoFlag, w.device)),
    ROW(kReady, kValue, kDocumented, cuCtxCreate_v2(nullptr, 0, w.device)),
    ROW(kReady, kValue, kDocumented, cuCtxAttach(nullptr, 0)),
    ROW(kReady, kValue, kDocumented, cuCtxAttach(&w.c, 1)),
    ROW(kReady, kContext, kOurs, cuCtxDetach(World::garbage<CUcontext>())),
    ROW(kReady, kContext, kDocumented, cuCtxDetach(w.destroyed)),
    STEPS(kReady, kContext, kDocumented, "cuCtxPopCurrent once too often",
          {
            (void)w.cu->cuCtxPopCurrent_v2(nullptr);
            const CUresult result = w.cu->cuCtxPopCurrent_v2(&w.c);
            (void)w.cu->cuCtxPushCurrent_v2(w.context);
            return result;
          }),
    STEPS(kReady, kContext, kDocumented, "cuCtxDestroy twice",
          {
            (void)w.cu->cuCtxCreate_v2(&w.c, 0, w.device);
            (void)w.cu->cuCtxDestroy_v2(w.c);
            return w.cu->cuCtxDestroy_v2(w.c);
          }),
    STEPS(kReady, kOk, kDocumented, "cuCtxDestroy pops what is current",
          {
            (void)w.cu->cuCtxCreate_v2(&w.c, 0, w.device);
            (void)w.cu->cuCtxDestroy_v2(w.c);
            (void)w.cu->cuCtxGetCurrent(&w.c);
            return w.c == w.context ? kOk : kContext;
          }),
    STEPS(kReady, kOk, kDocumented, "cuCtxAttach, then cuCtxDetach: the context lives on",
          {
            CUcontext made = nullptr;
            (void)w.cu->cuCtxCreate_v2(&made, 0, w.device);
            CUresult result = w.cu->cuCtxAttach(&w.c, 0);
            if (result == kOk) result = w.cu->cuCtxDetach(made);
            if (result == kOk) result = w.cu->cuCtxGetCurrent(&w.c);
            const bool lives = w.c == made;
            (void)w.cu->cuCtxDestroy_v2(made);
            return result != kOk || lives ? result : kDestroyed;
          }),

    STEPS(kReady, kOk, kDocumented, "cuCtxDetach without cuCtxAttach ends the context",
          {
            CUcontext made = nullptr;
            (void)w.cu->cuCtxCreate_v2(&made, 0, w.device);
            const CUresult result = w.cu->cuCtxDetach(made);
            return result != kOk || w.cu->cuCtxDestroy_v2(made) == kContext ? result : kDestroyed;
          }),
    ROW(kReady, kContext, kOurs, cuCtxDetach(w.other)),  // it is not current

    // Its primary context is current before it is retained: libcudart does that.
    ROW(kInactive, kOk, kConfirmed, cuCtxGetCurrent(&w.c)),
    ROW(kInactive, kOk, kConfirmed, cuCtxGetDevice(&w.d)),
    ROW(kInactive, kDestroyed, kDocumented, cuCtxSynchronize()),
    ROW(kInactive, kDestroyed, kDocumented, cuCtxGetLimit(&w.size, kStack)),
    ROW(kInactive, kDestroyed, kDocumented, cuCtxGetStreamPriorityRange(&w.i, &w.i2)),
    ROW(kDead, kOk, kDocumented, cuCtxGetCurrent(&w.c)),
    ROW(kDead, kDestroyed, kDocumented, cuCtxSynchronize()),
    ROW(kDead, kDestroyed, kDocumented, cuCtxGetId(nullptr, &w.ull)),
    ROW(kDead, kDestroyed, kDocumented, cuCtxGetApiVersion(nullptr, &w.u)),
    ROW(kDead, kDestroyed, kDocumented, cuCtxGetFlags(&w.u)),
    ROW(kDead, kDestroyed, kDocumented, cuCtxGetLimit(&w.size, kStack)),
    ROW(kDead, kDestroyed, kDocumented, cuCtxSetLimit(kStack, 1024)),
    ROW(kDead, kDestroyed, kDocumented, cuCtxGetCacheConfig(&w.cache)),
    ROW(kDead, kDestroyed, kDocumented, cuCtxGetStreamPriorityRange(&w.i, &w.i2)),
    ROW(kDead, kOk, kDocumented, cuCtxPopCurrent_v2(&w.c)),
    ROW(kFault, kIllegal, kDocumented, cuCtxSynchronize()),
    ROW(kFault, kIllegal, kDocumented, cuCtxSynchronize_v2(w.context)),
    ROW(kFault, kOk, kDocumented, cuCtxGetCurrent(&w.c)),
    ROW(kFault, kOk, kDocumented, cuCtxGetDevice(&w.d)),
    ROW(kFault, kIllegal, kDocumented, cuCtxSetLimit(kStack, 1024)),
    ROW(kForked, kNotInit, kOurs, cuCtxGetCurrent(&w.c)),
    ROW(kForked, kNotInit, kOurs, cuCtxSetCurrent(w.context)),
    ROW(kForked, kNotInit, kOurs, cuCtxSynchronize()),
    ROW(kForked, kNotInit, kOurs, cuCtxCreate_v2(&w.c, 0, w.device)),
    ROW(kForked, kNotInit, kOurs, cuDevicePrimaryCtxRetain(&w.c, w.device)),
};

}  // namespace

const std::span<const Row> kContextRows = kRows;

}  // namespace vgpu::fidelity
