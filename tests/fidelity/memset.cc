// Linear fills: ranges, alignment, streams.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr CUdeviceptr kNowhere = 0x40;
constexpr size_t kAll = World::kBytes;

CUdeviceptr pinned(World& w) { return reinterpret_cast<CUdeviceptr>(w.pinned); }
CUdeviceptr pageable(World& w) { return reinterpret_cast<CUdeviceptr>(w.registered) + 32768; }

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuMemsetD8_v2(kNowhere, 0, 4)),
    ROW(kFresh, kNotInit, kDocumented, cuMemsetD16_v2(kNowhere, 0, 4)),
    ROW(kFresh, kNotInit, kDocumented, cuMemsetD32_v2(kNowhere, 0, 4)),
    ROW(kFresh, kNotInit, kDocumented, cuMemsetD8Async(kNowhere, 0, 4, nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuMemsetD16Async(kNowhere, 0, 4, nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuMemsetD32Async(kNowhere, 0, 4, nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuMemsetD8_v2(kNowhere, 0, 4)),
    ROW(kNoContext, kContext, kDocumented, cuMemsetD16_v2(kNowhere, 0, 4)),
    ROW(kNoContext, kContext, kDocumented, cuMemsetD32_v2(kNowhere, 0, 4)),
    ROW(kNoContext, kContext, kDocumented, cuMemsetD8Async(kNowhere, 0, 4, nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuMemsetD16Async(kNowhere, 0, 4, nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuMemsetD32Async(kNowhere, 0, 4, nullptr)),

    ROW(kReady, kValue, kDocumented, cuMemsetD8_v2(kNowhere, 0, 4)),
    ROW(kReady, kValue, kDocumented, cuMemsetD8_v2(0, 0, 4)),
    ROW(kReady, kValue, kDocumented, cuMemsetD8_v2(w.freed, 0, 4)),
    ROW(kReady, kValue, kDocumented, cuMemsetD8_v2(w.memory, 0, kAll + 1)),
    ROW(kReady, kValue, kDocumented, cuMemsetD8_v2(w.memory + 1, 0, kAll)),
    ROW(kReady, kValue, kDocumented, cuMemsetD8_v2(pageable(w), 0, 4)),
    ROW(kReady, kOk, kDocumented, cuMemsetD8_v2(w.memory + kAll - 1, 0, 1)),
    ROW(kReady, kOk, kDocumented, cuMemsetD8_v2(w.memory, 0, 0)),
    ROW(kReady, kOk, kDocumented, cuMemsetD8_v2(pinned(w), 7, 64)),
    ROW(kReady, kValue, kDocumented, cuMemsetD8_v2(pinned(w), 7, kAll + 1)),
    ROW(kReady, kValue, kDocumented, cuMemsetD16_v2(w.memory + 1, 0, 4)),
    ROW(kReady, kValue, kDocumented, cuMemsetD16_v2(kNowhere, 0, 4)),
    ROW(kReady, kValue, kDocumented, cuMemsetD16_v2(w.memory, 0, kAll / 2 + 1)),
    ROW(kReady, kValue, kDocumented, cuMemsetD16_v2(w.memory, 0, SIZE_MAX / 2 + 1)),
    ROW(kReady, kOk, kDocumented, cuMemsetD16_v2(w.memory + kAll - 2, 0, 1)),
    ROW(kReady, kValue, kDocumented, cuMemsetD32_v2(w.memory + 1, 0, 4)),
    ROW(kReady, kValue, kDocumented, cuMemsetD32_v2(w.memory + 2, 0, 4)),
    ROW(kReady, kValue, kDocumented, cuMemsetD32_v2(kNowhere, 0, 4)),
    ROW(kReady, kValue, kDocumented, cuMemsetD32_v2(w.memory, 0, kAll / 4 + 1)),
    ROW(kReady, kValue, kDocumented, cuMemsetD32_v2(w.memory, 0, SIZE_MAX / 4 + 1)),
    ROW(kReady, kOk, kDocumented, cuMemsetD32_v2(w.memory + kAll - 4, 0, 1)),
    ROW(kReady, kOk, kDocumented, cuMemsetD32_v2(pinned(w), 7, 16)),
    ROW(kReady, kValue, kDocumented, cuMemsetD8Async(kNowhere, 0, 4, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemsetD8Async(w.memory, 0, kAll + 1, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemsetD16Async(w.memory + 1, 0, 4, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemsetD32Async(w.memory + 2, 0, 4, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemsetD32Async(w.memory, 0, kAll / 4 + 1, w.stream)),
    ROW(kReady, kOk, kDocumented, cuMemsetD32Async(w.memory, 0, kAll / 4, w.stream)),
    ROW(kReady, kOk, kDocumented, cuMemsetD32Async(pinned(w), 5, 16, w.stream)),
    ROW(kReady, kHandle, kDocumented, cuMemsetD8Async(w.memory, 0, 4, w.stale_stream)),
    ROW(kReady, kHandle, kDocumented, cuMemsetD16Async(w.memory, 0, 4, w.stale_stream)),
    ROW(kReady, kHandle, kDocumented, cuMemsetD32Async(w.memory, 0, 4, w.stale_stream)),
    ROW(kReady, kHandle, kOurs, cuMemsetD32Async(w.memory, 0, 4, w.other_stream)),
    ROW(kReady, kHandle, kOurs, cuMemsetD32Async(w.memory, 0, 4, World::garbage<CUstream>())),

    ROW(kDead, kDestroyed, kDocumented, cuMemsetD8_v2(kNowhere, 0, 4)),
    ROW(kDead, kDestroyed, kDocumented, cuMemsetD32Async(kNowhere, 0, 4, nullptr)),
    ROW(kFault, kIllegal, kDocumented, cuMemsetD8_v2(w.memory, 0, 4)),
    ROW(kFault, kIllegal, kDocumented, cuMemsetD32Async(w.memory, 0, 4, w.stream)),
    ROW(kForked, kNotInit, kOurs, cuMemsetD8_v2(w.memory, 0, 4)),
};

}  // namespace

const std::span<const Row> kMemsetRows = kRows;

}  // namespace vgpu::fidelity
