// cuLogs…: they need no cuInit.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

void CUDA_CB ignore(void*, CUlogLevel, char*, size_t) {}

const Row kRows[] = {
    ROW(kFresh, kOk, kDocumented, cuLogsCurrent(&w.u, 0)),
    ROW(kFresh, kValue, kDocumented, cuLogsCurrent(&w.u, 1)),
    ROW(kReady, kValue, kDocumented, cuLogsCurrent(&w.u, 2)),
    ROW(kReady, kValue, kOurs, cuLogsCurrent(nullptr, 0)),
    ROW(kReady, kValue, kDocumented, cuLogsDumpToMemory(nullptr, nullptr, &w.size, 0)),
    ROW(kReady, kValue, kOurs, cuLogsDumpToMemory(nullptr, w.name, nullptr, 0)),
    ROW(kReady, kValue, kDocumented, cuLogsDumpToMemory(nullptr, w.name, &w.size, 1)),
    STEPS(kReady, kValue, kDocumented, "cuLogsDumpToMemory(no room for a message)",
          {
            (void)w.cu->cuDeviceGetCount(nullptr);
            w.size = 4;
            return w.cu->cuLogsDumpToMemory(nullptr, w.name, &w.size, 0);
          }),
    ROW(kReady, kValue, kOurs, cuLogsDumpToFile(nullptr, nullptr, 0)),
    ROW(kReady, kValue, kDocumented, cuLogsDumpToFile(nullptr, "/dev/null", 1)),
    ROW(kReady, kValue, kDocumented, cuLogsDumpToFile(nullptr, "/no/such/folder/log", 0)),
    ROW(kReady, kOk, kDocumented, cuLogsDumpToFile(nullptr, "/dev/null", 0)),
    ROW(kReady, kValue, kOurs, cuLogsRegisterCallback(nullptr, nullptr, nullptr)),
    ROW(kReady, kValue, kDocumented, cuLogsUnregisterCallback(nullptr)),
    ROW(kReady, kValue, kOurs, cuLogsUnregisterCallback(w.garbage<CUlogsCallbackHandle>())),
    STEPS(kReady, kOk, kDocumented, "cuLogsRegisterCallback(no handle wanted)",
          { return w.cu->cuLogsRegisterCallback(ignore, nullptr, nullptr); }),
    ROW(kFault, kOk, kDocumented, cuLogsCurrent(&w.u, 0)),
    ROW(kForked, kOk, kDocumented, cuLogsCurrent(&w.u, 0)),
};

}  // namespace

const std::span<const Row> kLogsRows = kRows;

}  // namespace vgpu::fidelity
