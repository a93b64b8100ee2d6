// Device memory: allocations and what is asked about them.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr size_t kHuge = size_t{1} << 46;
constexpr CUdeviceptr kNowhere = 0x40;

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuMemAlloc_v2(&w.p, 4096)),
    ROW(kFresh, kNotInit, kDocumented, cuMemAllocPitch_v2(&w.p, &w.size, 64, 64, 4)),
    ROW(kFresh, kNotInit, kDocumented, cuMemFree_v2(0x1000)),
    ROW(kFresh, kNotInit, kDocumented, cuMemGetInfo_v2(&w.size, &w.size2)),
    ROW(kFresh, kNotInit, kDocumented, cuMemGetAddressRange_v2(&w.p, &w.size, 0x1000)),
    ROW(kNoContext, kContext, kDocumented, cuMemAlloc_v2(&w.p, 4096)),
    ROW(kNoContext, kContext, kDocumented, cuMemAllocPitch_v2(&w.p, &w.size, 64, 64, 4)),
    ROW(kNoContext, kContext, kDocumented, cuMemFree_v2(0x1000)),
    ROW(kNoContext, kContext, kDocumented, cuMemGetInfo_v2(&w.size, &w.size2)),
    ROW(kNoContext, kContext, kDocumented, cuMemGetAddressRange_v2(&w.p, &w.size, 0x1000)),

    ROW(kReady, kValue, kDocumented, cuMemAlloc_v2(nullptr, 4096)),
    ROW(kReady, kValue, kDocumented, cuMemAlloc_v2(&w.p, 0)),
    ROW(kReady, kNoMemory, kDocumented, cuMemAlloc_v2(&w.p, kHuge)),
    ROW(kReady, kNoMemory, kDocumented, cuMemAlloc_v2(&w.p, SIZE_MAX)),
    ROW(kReady, kNoMemory, kDocumented, cuMemAlloc_v2(&w.p, SIZE_MAX - 4096)),
    STEPS(kReady, kOk, kConfirmed, "cuMemAlloc works again after it had no memory",
          {
            (void)w.cu->cuMemAlloc_v2(&w.p, kHuge);
            const CUresult result = w.cu->cuMemAlloc_v2(&w.p, 4096);
            return result == kOk ? w.cu->cuMemFree_v2(w.p) : result;
          }),
    ROW(kReady, kValue, kDocumented, cuMemAllocPitch_v2(nullptr, &w.size, 64, 64, 4)),
    ROW(kReady, kValue, kDocumented, cuMemAllocPitch_v2(&w.p, nullptr, 64, 64, 4)),
    ROW(kReady, kValue, kDocumented, cuMemAllocPitch_v2(&w.p, &w.size, 64, 64, 3)),
    ROW(kReady, kValue, kDocumented, cuMemAllocPitch_v2(&w.p, &w.size, 64, 64, 0)),
    ROW(kReady, kValue, kDocumented, cuMemAllocPitch_v2(&w.p, &w.size, 64, 64, 32)),
    ROW(kReady, kValue, kDocumented, cuMemAllocPitch_v2(&w.p, &w.size, 0, 64, 4)),
    ROW(kReady, kValue, kDocumented, cuMemAllocPitch_v2(&w.p, &w.size, 64, 0, 4)),
    ROW(kReady, kNoMemory, kDocumented, cuMemAllocPitch_v2(&w.p, &w.size, 1 << 20, 1 << 26, 4)),
    ROW(kReady, kOk, kConfirmed, cuMemFree_v2(0)),
    ROW(kReady, kValue, kDocumented, cuMemFree_v2(kNowhere)),
    ROW(kReady, kValue, kDocumented, cuMemFree_v2(w.freed)),
    ROW(kReady, kValue, kDocumented, cuMemFree_v2(w.memory + 256)),
    ROW(kReady, kValue, kDocumented, cuMemFree_v2(w.memory + World::kBytes)),
    ROW(kReady, kValue, kDocumented,
        cuMemFree_v2(reinterpret_cast<CUdeviceptr>(w.pageable.data()))),
    ROW(kReady, kValue, kDocumented, cuMemFree_v2(reinterpret_cast<CUdeviceptr>(w.pinned))),
    ROW(kReady, kValue, kDocumented, cuMemFree_v2(~CUdeviceptr{0})),
    STEPS(kReady, kValue, kDocumented, "cuMemFree of a module's variable",
          {
            (void)w.cu->cuModuleGetGlobal_v2(&w.p, nullptr, w.module, "counter");
            return w.cu->cuMemFree_v2(w.p);
          }),
    STEPS(kReady, kValue, kDocumented, "cuMemFree twice",
          {
            (void)w.cu->cuMemAlloc_v2(&w.p, 4096);
            (void)w.cu->cuMemFree_v2(w.p);
            return w.cu->cuMemFree_v2(w.p);
          }),
    ROW(kReady, kOk, kConfirmed, cuMemGetInfo_v2(nullptr, nullptr)),
    ROW(kReady, kOk, kConfirmed, cuMemGetInfo_v2(&w.size, nullptr)),
    ROW(kReady, kOk, kConfirmed, cuMemGetInfo_v2(nullptr, &w.size)),
    ROW(kReady, kOk, kDocumented, cuMemGetAddressRange_v2(&w.p, nullptr, w.memory + 5)),
    ROW(kReady, kOk, kDocumented, cuMemGetAddressRange_v2(nullptr, &w.size, w.memory + 5)),
    ROW(kReady, kNotFound, kDocumented, cuMemGetAddressRange_v2(&w.p, &w.size, kNowhere)),
    ROW(kReady, kNotFound, kDocumented, cuMemGetAddressRange_v2(&w.p, &w.size, w.freed)),
    STEPS(kReady, kNotFound, kDocumented, "cuMemGetAddressRange of pageable memory",
          {
            const auto address = reinterpret_cast<CUdeviceptr>(w.pageable.data());
            return w.cu->cuMemGetAddressRange_v2(&w.p, &w.size, address);
          }),
    STEPS(kReady, kOk, kDocumented, "cuMemGetAddressRange of the last byte",
          {
            const auto last = w.memory + World::kBytes - 1;
            const CUresult result = w.cu->cuMemGetAddressRange_v2(&w.p, &w.size, last);
            return result != kOk || (w.p == w.memory && w.size == World::kBytes) ? result : kValue;
          }),

    ROW(kInactive, kDestroyed, kDocumented, cuMemAlloc_v2(&w.p, 4096)),
    ROW(kInactive, kDestroyed, kDocumented, cuMemGetInfo_v2(&w.size, &w.size2)),
    ROW(kDead, kDestroyed, kDocumented, cuMemAlloc_v2(&w.p, 4096)),
    ROW(kDead, kDestroyed, kDocumented, cuMemAllocPitch_v2(&w.p, &w.size, 64, 64, 4)),
    ROW(kDead, kDestroyed, kDocumented, cuMemFree_v2(0x1000)),
    ROW(kDead, kDestroyed, kDocumented, cuMemGetInfo_v2(&w.size, &w.size2)),
    ROW(kDead, kDestroyed, kDocumented, cuMemGetAddressRange_v2(&w.p, &w.size, 0x1000)),
    ROW(kFault, kIllegal, kDocumented, cuMemAlloc_v2(&w.p, 4096)),
    ROW(kFault, kIllegal, kDocumented, cuMemAllocPitch_v2(&w.p, &w.size, 64, 64, 4)),
    ROW(kFault, kIllegal, kDocumented, cuMemFree_v2(w.memory)),
    ROW(kFault, kIllegal, kDocumented, cuMemGetInfo_v2(&w.size, &w.size2)),
    ROW(kForked, kNotInit, kOurs, cuMemAlloc_v2(&w.p, 4096)),
    ROW(kForked, kNotInit, kOurs, cuMemFree_v2(w.memory)),
    ROW(kForked, kNotInit, kOurs, cuMemGetInfo_v2(&w.size, &w.size2)),
};

}  // namespace

const std::span<const Row> kMemoryRows = kRows;

}  // namespace vgpu::fidelity
