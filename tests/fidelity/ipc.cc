// Memory shared between processes by handles.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr unsigned kLazy = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;

CUipcMemHandle handle;
CUipcEventHandle event_handle;

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuIpcGetMemHandle(&handle, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuIpcOpenMemHandle_v2(&w.p, handle, kLazy)),
    ROW(kFresh, kNotInit, kDocumented, cuIpcCloseMemHandle(0)),
    ROW(kNoContext, kContext, kDocumented, cuIpcGetMemHandle(&handle, w.memory)),
    ROW(kNoContext, kContext, kDocumented, cuIpcOpenMemHandle_v2(&w.p, handle, kLazy)),
    ROW(kNoContext, kContext, kDocumented, cuIpcCloseMemHandle(w.memory)),
    ROW(kReady, kOk, kDocumented, cuIpcGetMemHandle(&handle, w.memory)),
    ROW(kReady, kValue, kDocumented, cuIpcGetMemHandle(nullptr, w.memory)),
    ROW(kReady, kValue, kDocumented, cuIpcGetMemHandle(&handle, 0)),
    ROW(kReady, kValue, kDocumented, cuIpcGetMemHandle(&handle, w.freed)),
    ROW(kReady, kValue, kDocumented,
        cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(w.pinned))),
    ROW(kReady, kValue, kDocumented,
        cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(w.pageable.data()))),
    ROW(kReady, kValue, kDocumented, cuIpcOpenMemHandle_v2(&w.p, CUipcMemHandle{}, kLazy)),
    ROW(kReady, kValue, kDocumented, cuIpcCloseMemHandle(0)),
    ROW(kReady, kValue, kDocumented, cuIpcCloseMemHandle(w.memory)),
    STEPS(kReady, kContext, kConfirmed, "cuIpcOpenMemHandle where it was made",
          {
            (void)w.cu->cuIpcGetMemHandle(&handle, w.memory);
            return w.cu->cuIpcOpenMemHandle_v2(&w.p, handle, kLazy);
          }),
    STEPS(kReady, kValue, kDocumented, "cuIpcOpenMemHandle without its flag",
          {
            (void)w.cu->cuIpcGetMemHandle(&handle, w.memory);
            return w.cu->cuIpcOpenMemHandle_v2(&w.p, handle, 0);
          }),
    ROW(kFresh, kNotInit, kDocumented, cuIpcGetEventHandle(&event_handle, nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuIpcGetEventHandle(&event_handle, w.event)),
    ROW(kNoContext, kContext, kDocumented, cuIpcOpenEventHandle(&w.e, event_handle)),
    ROW(kReady, kHandle, kDocumented, cuIpcGetEventHandle(&event_handle, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuIpcGetEventHandle(&event_handle, w.untimed)),
    ROW(kReady, kHandle, kDocumented, cuIpcGetEventHandle(&event_handle, w.stale_event)),
    ROW(kReady, kValue, kDocumented, cuIpcGetEventHandle(nullptr, w.untimed)),
    ROW(kReady, kValue, kOurs, cuIpcOpenEventHandle(&w.e, CUipcEventHandle{})),
    STEPS(kReady, kContext, kConfirmed, "cuIpcOpenEventHandle where it was made",
          {
            CUevent made = nullptr;
            (void)w.cu->cuEventCreate(&made, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
            (void)w.cu->cuIpcGetEventHandle(&event_handle, made);
            const CUresult result = w.cu->cuIpcOpenEventHandle(&w.e, event_handle);
            (void)w.cu->cuEventDestroy_v2(made);
            return result;
          }),
    ROW(kForked, kNotInit, kOurs, cuIpcGetMemHandle(&handle, w.memory)),
};

}  // namespace

const std::span<const Row> kIpcRows = kRows;

}  // namespace vgpu::fidelity
