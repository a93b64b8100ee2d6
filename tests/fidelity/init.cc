// cuInit, version, entry points.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr int kVersion = 12000;

const Row kRows[] = {
    ROW(kFresh, kValue, kDocumented, cuInit(1)),
    ROW(kFresh, kValue, kDocumented, cuInit(0xffffffff)),
    ROW(kFresh, kOk, kDocumented, cuDriverGetVersion(&w.i)),
    ROW(kFresh, kValue, kDocumented, cuDriverGetVersion(nullptr)),
    ROW(kFresh, kOk, kConfirmed, cuGetProcAddress_v2("cuInit", &w.v, kVersion, 0, nullptr)),
    ROW(kFresh, kOk, kConfirmed,
        cuGetProcAddress_v2("cuGetProcAddress", &w.v, kVersion, 0, nullptr)),
    ROW(kFresh, kValue, kDocumented, cuGetProcAddress_v2(nullptr, &w.v, kVersion, 0, nullptr)),
    ROW(kFresh, kValue, kDocumented, cuGetProcAddress_v2("cuInit", nullptr, kVersion, 0, nullptr)),
    ROW(kFresh, kNotFound, kOurs, cuGetProcAddress_v2("cuNo", &w.v, kVersion, 0, nullptr)),
    ROW(kFresh, kNotFound, kOurs, cuGetProcAddress_v2("", &w.v, kVersion, 0, nullptr)),
    ROW(kNoContext, kOk, kDocumented, cuInit(0)),
    ROW(kNoContext, kValue, kDocumented, cuInit(1)),
    ROW(kNoContext, kOk, kDocumented, cuDriverGetVersion(&w.i)),
    ROW(kNoContext, kValue, kDocumented, cuDriverGetVersion(nullptr)),
    ROW(kNoContext, kValue, kDocumented, cuGetProcAddress_v2(nullptr, &w.v, kVersion, 0, nullptr)),
    ROW(kNoContext, kValue, kDocumented,
        cuGetProcAddress_v2("cuInit", nullptr, kVersion, 0, nullptr)),
    ROW(kReady, kOk, kDocumented, cuInit(0)),
    ROW(kReady, kValue, kDocumented, cuInit(7)),
    ROW(kReady, kNotFound, kOurs, cuGetProcAddress_v2("cuNo", &w.v, kVersion, 0, nullptr)),
    STEPS(kReady, kOk, kConfirmed, "cuGetExportTable(unknown id) gives no table and no success",
          {
            const CUuuid id = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
            const void* table = nullptr;
            return w.cu->cuGetExportTable(&table, &id) != kOk && table == nullptr ? kOk : kValue;
          }),
    ROW(kFault, kOk, kDocumented, cuInit(0)),
    ROW(kFault, kOk, kDocumented, cuDriverGetVersion(&w.i)),
    ROW(kForked, kNotInit, kOurs, cuInit(0)),
    ROW(kForked, kOk, kDocumented, cuDriverGetVersion(&w.i)),
};

}  // namespace

const std::span<const Row> kInitRows = kRows;

}  // namespace vgpu::fidelity
