// Events: flags, recording, times.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr unsigned kShared = CU_EVENT_INTERPROCESS;
constexpr unsigned kExternal = CU_EVENT_RECORD_EXTERNAL;

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuEventCreate(&w.e, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuEventDestroy_v2(World::garbage<CUevent>())),
    ROW(kFresh, kNotInit, kDocumented, cuEventRecord(World::garbage<CUevent>(), nullptr)),
    ROW(kFresh, kNotInit, kDocumented,
        cuEventRecordWithFlags(World::garbage<CUevent>(), nullptr, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuEventQuery(World::garbage<CUevent>())),
    ROW(kFresh, kNotInit, kDocumented, cuEventSynchronize(World::garbage<CUevent>())),
    ROW(kFresh, kNotInit, kDocumented,
        cuEventElapsedTime_v2(&w.ms, World::garbage<CUevent>(), World::garbage<CUevent>())),
    ROW(kNoContext, kContext, kDocumented, cuEventCreate(&w.e, 0)),
    ROW(kNoContext, kContext, kOurs, cuEventQuery(World::garbage<CUevent>())),
    ROW(kNoContext, kContext, kOurs, cuEventSynchronize(World::garbage<CUevent>())),

    ROW(kReady, kValue, kDocumented, cuEventCreate(nullptr, 0)),
    ROW(kReady, kValue, kDocumented, cuEventCreate(&w.e, 0x8)),
    ROW(kReady, kValue, kDocumented, cuEventCreate(&w.e, 0xffffffff)),
    ROW(kReady, kValue, kDocumented, cuEventCreate(&w.e, kShared)),
    ROW(kReady, kValue, kDocumented, cuEventCreate(&w.e, kShared | CU_EVENT_BLOCKING_SYNC)),
    ROW(kReady, kHandle, kDocumented, cuEventDestroy_v2(nullptr)),
    ROW(kReady, kHandle, kDocumented, cuEventDestroy_v2(w.stale_event)),
    ROW(kReady, kHandle, kOurs, cuEventDestroy_v2(World::garbage<CUevent>())),
    ROW(kReady, kHandle, kOurs, cuEventDestroy_v2(reinterpret_cast<CUevent>(w.stream))),
    ROW(kReady, kHandle, kDocumented, cuEventRecord(nullptr, w.stream)),
    ROW(kReady, kHandle, kDocumented, cuEventRecord(w.stale_event, w.stream)),
    ROW(kReady, kHandle, kDocumented, cuEventRecord(w.event, w.stale_stream)),
    ROW(kReady, kHandle, kDocumented, cuEventRecord(w.event, w.other_stream)),
    ROW(kReady, kHandle, kDocumented, cuEventRecord(w.other_event, w.stream)),
    ROW(kReady, kHandle, kDocumented, cuEventRecord(w.other_event, nullptr)),
    ROW(kReady, kHandle, kOurs, cuEventRecord(World::garbage<CUevent>(), w.stream)),
    ROW(kReady, kHandle, kOurs, cuEventRecord(w.event, World::garbage<CUstream>())),
    ROW(kReady, kValue, kDocumented, cuEventRecordWithFlags(w.event, w.stream, 0x80)),
    ROW(kReady, kValue, kDocumented, cuEventRecordWithFlags(w.event, w.stream, 2)),
    ROW(kReady, kValue, kDocumented, cuEventRecordWithFlags(w.event, w.stream, kExternal)),
    ROW(kReady, kHandle, kDocumented, cuEventRecordWithFlags(nullptr, w.stream, 0)),
    ROW(kReady, kHandle, kDocumented, cuEventRecordWithFlags(w.event, w.other_stream, 0)),
    ROW(kReady, kHandle, kDocumented, cuEventRecordWithFlags(w.stale_event, w.stream, 0)),
    ROW(kReady, kHandle, kDocumented, cuEventQuery(nullptr)),
    ROW(kReady, kHandle, kDocumented, cuEventQuery(w.stale_event)),
    ROW(kReady, kHandle, kOurs, cuEventQuery(World::garbage<CUevent>())),
    ROW(kReady, kHandle, kOurs, cuEventQuery(reinterpret_cast<CUevent>(w.stream))),
    ROW(kReady, kOk, kDocumented, cuEventQuery(w.event)),
    ROW(kReady, kOk, kDocumented, cuEventQuery(w.other_event)),
    ROW(kReady, kHandle, kDocumented, cuEventSynchronize(nullptr)),
    ROW(kReady, kHandle, kDocumented, cuEventSynchronize(w.stale_event)),
    ROW(kReady, kHandle, kOurs, cuEventSynchronize(World::garbage<CUevent>())),
    ROW(kReady, kOk, kDocumented, cuEventSynchronize(w.event)),
    ROW(kReady, kHandle, kDocumented, cuEventElapsedTime_v2(&w.ms, nullptr, w.recorded)),
    ROW(kReady, kHandle, kDocumented, cuEventElapsedTime_v2(&w.ms, w.recorded, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuEventElapsedTime_v2(&w.ms, w.event, w.recorded)),
    ROW(kReady, kHandle, kDocumented, cuEventElapsedTime_v2(&w.ms, w.recorded, w.event)),
    ROW(kReady, kHandle, kDocumented, cuEventElapsedTime_v2(&w.ms, w.recorded, w.untimed)),
    ROW(kReady, kHandle, kDocumented, cuEventElapsedTime_v2(&w.ms, w.untimed, w.recorded)),
    ROW(kReady, kHandle, kDocumented, cuEventElapsedTime_v2(&w.ms, w.stale_event, w.recorded)),
    ROW(kReady, kHandle, kOurs,
        cuEventElapsedTime_v2(&w.ms, World::garbage<CUevent>(), w.recorded)),
    ROW(kReady, kValue, kDocumented, cuEventElapsedTime_v2(nullptr, w.recorded, w.recorded)),
    ROW(kReady, kOk, kDocumented, cuEventElapsedTime_v2(&w.ms, w.recorded, w.recorded)),
    STEPS(kReady, kHandle, kDocumented, "cuEventDestroy twice",
          {
            (void)w.cu->cuEventCreate(&w.e, 0);
            (void)w.cu->cuEventDestroy_v2(w.e);
            return w.cu->cuEventDestroy_v2(w.e);
          }),
    STEPS(kReady, kHandle, kOurs, "cuEventQuery after the event's context was destroyed",
          {
            (void)w.cu->cuCtxCreate_v2(&w.c, 0, w.device);
            (void)w.cu->cuEventCreate(&w.e, 0);
            (void)w.cu->cuCtxDestroy_v2(w.c);
            return w.cu->cuEventQuery(w.e);
          }),

    ROW(kInactive, kDestroyed, kDocumented, cuEventCreate(&w.e, 0)),
    ROW(kDead, kDestroyed, kDocumented, cuEventCreate(&w.e, 0)),
    ROW(kFault, kIllegal, kDocumented, cuEventCreate(&w.e, 0)),
    ROW(kFault, kIllegal, kDocumented, cuEventRecord(w.event, w.stream)),
    ROW(kFault, kIllegal, kDocumented, cuEventQuery(w.recorded)),
    ROW(kFault, kIllegal, kDocumented, cuEventSynchronize(w.recorded)),
    ROW(kFault, kIllegal, kDocumented, cuEventElapsedTime_v2(&w.ms, w.recorded, w.recorded)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxRecordEvent(nullptr, nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxWaitEvent(nullptr, nullptr)),
    ROW(kNoContext, kContext, kOurs, cuCtxRecordEvent(World::garbage<CUcontext>(), nullptr)),
    ROW(kNoContext, kContext, kOurs, cuCtxWaitEvent(World::garbage<CUcontext>(), nullptr)),
    ROW(kReady, kContext, kDocumented, cuCtxRecordEvent(w.destroyed, w.event)),
    ROW(kReady, kContext, kDocumented, cuCtxWaitEvent(w.destroyed, w.event)),
    ROW(kReady, kHandle, kDocumented, cuCtxRecordEvent(w.context, w.stale_event)),
    ROW(kReady, kHandle, kDocumented, cuCtxWaitEvent(w.context, w.stale_event)),
    ROW(kReady, kHandle, kDocumented, cuCtxRecordEvent(w.context, w.other_event)),
    ROW(kReady, kHandle, kDocumented, cuCtxRecordEvent(w.other, w.event)),
    ROW(kReady, kOk, kDocumented, cuCtxRecordEvent(w.other, w.other_event)),
    ROW(kReady, kOk, kDocumented, cuCtxWaitEvent(w.context, w.other_event)),
    ROW(kReady, kHandle, kOurs, cuCtxWaitEvent(w.context, World::garbage<CUevent>())),
    ROW(kFault, kIllegal, kDocumented, cuCtxRecordEvent(w.context, w.event)),
    ROW(kFault, kIllegal, kDocumented, cuCtxWaitEvent(w.context, w.event)),
    ROW(kForked, kNotInit, kOurs, cuCtxRecordEvent(w.context, w.event)),
    ROW(kForked, kNotInit, kOurs, cuEventCreate(&w.e, 0)),
    ROW(kForked, kNotInit, kOurs, cuEventQuery(w.recorded)),
    ROW(kForked, kNotInit, kOurs, cuEventDestroy_v2(w.recorded)),
};

}  // namespace

const std::span<const Row> kEventRows = kRows;

}  // namespace vgpu::fidelity
