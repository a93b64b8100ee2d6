// Streams: flags, handles, waiting.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr unsigned kExternal = CU_EVENT_WAIT_EXTERNAL;

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuStreamCreate(&w.s, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuStreamCreateWithPriority(&w.s, 0, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuStreamDestroy_v2(World::garbage<CUstream>())),
    ROW(kFresh, kNotInit, kDocumented, cuStreamSynchronize(nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuStreamQuery(nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuStreamWaitEvent(nullptr, World::garbage<CUevent>(), 0)),
    ROW(kFresh, kNotInit, kDocumented, cuStreamGetFlags(nullptr, &w.u)),
    ROW(kFresh, kNotInit, kDocumented, cuStreamGetPriority(nullptr, &w.i)),
    ROW(kFresh, kNotInit, kDocumented, cuStreamGetId(nullptr, &w.ull)),
    ROW(kFresh, kNotInit, kDocumented, cuStreamGetCtx(nullptr, &w.c)),
    ROW(kFresh, kNotInit, kDocumented, cuStreamGetDevice(nullptr, &w.d)),
    ROW(kNoContext, kContext, kDocumented, cuStreamCreate(&w.s, 0)),
    ROW(kNoContext, kContext, kDocumented, cuStreamCreateWithPriority(&w.s, 0, 0)),
    ROW(kNoContext, kContext, kDocumented, cuStreamSynchronize(nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuStreamQuery(nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuStreamQuery(CU_STREAM_PER_THREAD)),
    ROW(kNoContext, kContext, kDocumented, cuStreamGetFlags(nullptr, &w.u)),
    ROW(kNoContext, kContext, kDocumented, cuStreamGetPriority(nullptr, &w.i)),
    ROW(kNoContext, kContext, kDocumented, cuStreamGetId(nullptr, &w.ull)),
    ROW(kNoContext, kContext, kDocumented, cuStreamGetId(CU_STREAM_LEGACY, &w.ull)),
    ROW(kNoContext, kContext, kDocumented, cuStreamGetCtx(nullptr, &w.c)),
    ROW(kNoContext, kContext, kDocumented, cuStreamGetCtx(CU_STREAM_PER_THREAD, &w.c)),
    ROW(kNoContext, kContext, kDocumented, cuStreamGetDevice(nullptr, &w.d)),

    ROW(kReady, kValue, kDocumented, cuStreamCreate(nullptr, 0)),
    ROW(kReady, kValue, kDocumented, cuStreamCreate(&w.s, 2)),
    ROW(kReady, kValue, kDocumented, cuStreamCreate(&w.s, 0xffffffff)),
    ROW(kReady, kValue, kDocumented, cuStreamCreateWithPriority(nullptr, 0, 0)),
    ROW(kReady, kValue, kDocumented, cuStreamCreateWithPriority(&w.s, 4, 0)),
    STEPS(kReady, kOk, kDocumented, "cuStreamCreateWithPriority clamps the priority",
          {
            int least = 0, greatest = 0, low = 99, high = 99;
            CUstream one = nullptr, two = nullptr;
            (void)w.cu->cuCtxGetStreamPriorityRange(&least, &greatest);
            CUresult result = w.cu->cuStreamCreateWithPriority(&one, 0, 1000);
            if (result == kOk) result = w.cu->cuStreamCreateWithPriority(&two, 0, -1000);
            if (result == kOk) result = w.cu->cuStreamGetPriority(one, &low);
            if (result == kOk) result = w.cu->cuStreamGetPriority(two, &high);
            (void)w.cu->cuStreamDestroy_v2(one);
            (void)w.cu->cuStreamDestroy_v2(two);
            return result != kOk || (low == least && high == greatest) ? result : kValue;
          }),
    ROW(kReady, kHandle, kOurs, cuStreamDestroy_v2(nullptr)),
    ROW(kReady, kHandle, kOurs, cuStreamDestroy_v2(CU_STREAM_LEGACY)),
    ROW(kReady, kHandle, kOurs, cuStreamDestroy_v2(CU_STREAM_PER_THREAD)),
    ROW(kReady, kHandle, kDocumented, cuStreamDestroy_v2(w.stale_stream)),
    ROW(kReady, kHandle, kOurs, cuStreamDestroy_v2(World::garbage<CUstream>())),
    ROW(kReady, kHandle, kOurs, cuStreamDestroy_v2(reinterpret_cast<CUstream>(w.event))),
    ROW(kReady, kHandle, kDocumented, cuStreamSynchronize(w.stale_stream)),
    ROW(kReady, kHandle, kOurs, cuStreamSynchronize(World::garbage<CUstream>())),
    ROW(kReady, kHandle, kOurs, cuStreamSynchronize(reinterpret_cast<CUstream>(w.event))),
    ROW(kReady, kOk, kDocumented, cuStreamSynchronize(w.other_stream)),
    ROW(kReady, kHandle, kDocumented, cuStreamQuery(w.stale_stream)),
    ROW(kReady, kHandle, kOurs, cuStreamQuery(World::garbage<CUstream>())),
    ROW(kReady, kHandle, kOurs, cuStreamQuery(reinterpret_cast<CUstream>(3))),
    ROW(kReady, kOk, kDocumented, cuStreamQuery(w.other_stream)),
    ROW(kReady, kHandle, kDocumented, cuStreamWaitEvent(w.stream, nullptr, 0)),
    ROW(kReady, kHandle, kDocumented, cuStreamWaitEvent(w.stream, w.stale_event, 0)),
    ROW(kReady, kHandle, kDocumented, cuStreamWaitEvent(w.stale_stream, w.event, 0)),
    ROW(kReady, kHandle, kOurs, cuStreamWaitEvent(w.stream, World::garbage<CUevent>(), 0)),
    ROW(kReady, kHandle, kOurs, cuStreamWaitEvent(World::garbage<CUstream>(), w.event, 0)),
    ROW(kReady, kValue, kDocumented, cuStreamWaitEvent(w.stream, w.recorded, 0x10)),
    ROW(kReady, kValue, kDocumented, cuStreamWaitEvent(w.stream, w.recorded, 2)),
    ROW(kReady, kValue, kDocumented, cuStreamWaitEvent(w.stream, w.recorded, kExternal)),
    ROW(kReady, kOk, kDocumented, cuStreamWaitEvent(w.stream, w.other_event, 0)),
    ROW(kReady, kValue, kDocumented, cuStreamGetFlags(w.stream, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuStreamGetFlags(w.stale_stream, &w.u)),
    ROW(kReady, kHandle, kOurs, cuStreamGetFlags(World::garbage<CUstream>(), &w.u)),
    ROW(kReady, kOk, kDocumented, cuStreamGetFlags(CU_STREAM_LEGACY, &w.u)),
    ROW(kReady, kOk, kDocumented, cuStreamGetFlags(CU_STREAM_PER_THREAD, &w.u)),
    ROW(kReady, kValue, kDocumented, cuStreamGetPriority(w.stream, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuStreamGetPriority(w.stale_stream, &w.i)),
    ROW(kReady, kHandle, kOurs, cuStreamGetPriority(World::garbage<CUstream>(), &w.i)),
    ROW(kReady, kValue, kDocumented, cuStreamGetId(w.stream, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuStreamGetId(w.stale_stream, &w.ull)),
    ROW(kReady, kHandle, kOurs, cuStreamGetId(World::garbage<CUstream>(), &w.ull)),
    ROW(kReady, kOk, kDocumented, cuStreamGetId(CU_STREAM_LEGACY, &w.ull)),
    ROW(kReady, kValue, kDocumented, cuStreamGetCtx(w.stream, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuStreamGetCtx(w.stale_stream, &w.c)),
    ROW(kReady, kHandle, kOurs, cuStreamGetCtx(World::garbage<CUstream>(), &w.c)),
    STEPS(kReady, kOk, kDocumented, "cuStreamGetCtx of another context's stream",
          {
            const CUresult result = w.cu->cuStreamGetCtx(w.other_stream, &w.c);
            return result != kOk || w.c == w.other ? result : kValue;
          }),
    ROW(kReady, kValue, kDocumented, cuStreamGetDevice(w.stream, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuStreamGetDevice(w.stale_stream, &w.d)),
    ROW(kReady, kHandle, kOurs, cuStreamGetDevice(World::garbage<CUstream>(), &w.d)),
    STEPS(kReady, kHandle, kDocumented, "cuStreamDestroy twice",
          {
            (void)w.cu->cuStreamCreate(&w.s, 0);
            (void)w.cu->cuStreamDestroy_v2(w.s);
            return w.cu->cuStreamDestroy_v2(w.s);
          }),
    STEPS(kReady, kHandle, kOurs, "cuStreamQuery after the stream's context was destroyed",
          {
            (void)w.cu->cuCtxCreate_v2(&w.c, 0, w.device);
            (void)w.cu->cuStreamCreate(&w.s, 0);
            (void)w.cu->cuCtxDestroy_v2(w.c);
            return w.cu->cuStreamQuery(w.s);
          }),

    ROW(kInactive, kDestroyed, kDocumented, cuStreamCreate(&w.s, 0)),
    ROW(kInactive, kDestroyed, kDocumented, cuStreamQuery(nullptr)),
    ROW(kDead, kDestroyed, kDocumented, cuStreamCreate(&w.s, 0)),
    ROW(kDead, kDestroyed, kDocumented, cuStreamSynchronize(nullptr)),
    ROW(kDead, kDestroyed, kDocumented, cuStreamQuery(nullptr)),
    ROW(kDead, kDestroyed, kDocumented, cuStreamGetFlags(nullptr, &w.u)),
    ROW(kFault, kIllegal, kDocumented, cuStreamCreate(&w.s, 0)),
    ROW(kFault, kIllegal, kDocumented, cuStreamSynchronize(w.stream)),
    ROW(kFault, kIllegal, kDocumented, cuStreamSynchronize(nullptr)),
    ROW(kFault, kIllegal, kDocumented, cuStreamQuery(w.stream)),
    ROW(kFault, kIllegal, kDocumented, cuStreamWaitEvent(w.stream, w.recorded, 0)),
    ROW(kForked, kNotInit, kOurs, cuStreamCreate(&w.s, 0)),
    ROW(kForked, kNotInit, kOurs, cuStreamSynchronize(w.stream)),
    ROW(kForked, kNotInit, kOurs, cuStreamQuery(nullptr)),
    ROW(kForked, kNotInit, kOurs, cuStreamDestroy_v2(w.stream)),
};

}  // namespace

const std::span<const Row> kStreamRows = kRows;

}  // namespace vgpu::fidelity
