// Host memory: allocated by the driver, or registered with it.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr size_t kHuge = size_t{1} << 46;
constexpr unsigned kNoFlag = 0x80;
constexpr unsigned kMapped = CU_MEMHOSTALLOC_DEVICEMAP;

// Page-aligned pageable memory that nothing has registered.
void* spare(World& w) { return static_cast<char*>(w.registered) + 16384; }
void* inside(void* block) { return static_cast<char*>(block) + 100; }
void* past(World& w) { return static_cast<char*>(w.pinned) + World::kBytes; }

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuMemHostAlloc(&w.v, 4096, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuMemAllocHost_v2(&w.v, 4096)),
    ROW(kFresh, kNotInit, kDocumented, cuMemFreeHost(&w)),
    ROW(kFresh, kNotInit, kDocumented, cuMemHostRegister_v2(&w, 64, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuMemHostUnregister(&w)),
    ROW(kFresh, kNotInit, kDocumented, cuMemHostGetDevicePointer_v2(&w.p, &w, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuMemHostGetFlags(&w.u, &w)),
    ROW(kNoContext, kContext, kDocumented, cuMemHostAlloc(&w.v, 4096, 0)),
    ROW(kNoContext, kContext, kDocumented, cuMemAllocHost_v2(&w.v, 4096)),
    ROW(kNoContext, kContext, kDocumented, cuMemFreeHost(&w)),
    ROW(kNoContext, kContext, kDocumented, cuMemHostRegister_v2(&w, 64, 0)),
    ROW(kNoContext, kContext, kDocumented, cuMemHostUnregister(&w)),
    ROW(kNoContext, kContext, kDocumented, cuMemHostGetDevicePointer_v2(&w.p, &w, 0)),
    ROW(kNoContext, kContext, kDocumented, cuMemHostGetFlags(&w.u, &w)),

    ROW(kReady, kValue, kDocumented, cuMemHostAlloc(nullptr, 4096, 0)),
    ROW(kReady, kValue, kDocumented, cuMemHostAlloc(&w.v, 0, 0)),
    ROW(kReady, kValue, kDocumented, cuMemHostAlloc(&w.v, 4096, kNoFlag)),
    ROW(kReady, kValue, kDocumented, cuMemHostAlloc(&w.v, 4096, kMapped | kNoFlag)),
    ROW(kReady, kNoMemory, kDocumented, cuMemHostAlloc(&w.v, kHuge, 0)),
    ROW(kReady, kValue, kDocumented, cuMemAllocHost_v2(nullptr, 4096)),
    ROW(kReady, kValue, kDocumented, cuMemAllocHost_v2(&w.v, 0)),
    ROW(kReady, kNoMemory, kDocumented, cuMemAllocHost_v2(&w.v, kHuge)),
    ROW(kReady, kValue, kDocumented, cuMemFreeHost(nullptr)),
    ROW(kReady, kValue, kDocumented, cuMemFreeHost(w.pageable.data())),
    ROW(kReady, kValue, kDocumented, cuMemFreeHost(inside(w.pinned))),
    ROW(kReady, kValue, kDocumented, cuMemFreeHost(past(w))),
    ROW(kReady, kValue, kDocumented, cuMemFreeHost(w.registered)),
    ROW(kReady, kValue, kDocumented, cuMemFreeHost(reinterpret_cast<void*>(w.memory))),
    STEPS(kReady, kValue, kDocumented, "cuMemFreeHost twice",
          {
            (void)w.cu->cuMemAllocHost_v2(&w.v, 4096);
            (void)w.cu->cuMemFreeHost(w.v);
            return w.cu->cuMemFreeHost(w.v);
          }),

    ROW(kReady, kValue, kDocumented, cuMemHostRegister_v2(nullptr, 4096, 0)),
    ROW(kReady, kValue, kDocumented, cuMemHostRegister_v2(spare(w), 0, 0)),
    ROW(kReady, kValue, kDocumented, cuMemHostRegister_v2(spare(w), 4096, kNoFlag)),
    ROW(kReady, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, kDocumented,
        cuMemHostRegister_v2(w.registered, 8192, 0)),
    ROW(kReady, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, kDocumented,
        cuMemHostRegister_v2(inside(w.registered), 64, 0)),
    ROW(kReady, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, kDocumented,
        cuMemHostRegister_v2(static_cast<char*>(w.registered) - 4096, 8192, 0)),
    ROW(kReady, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, kDocumented,
        cuMemHostRegister_v2(w.pinned, 4096, 0)),
    STEPS(kReady, kOk, kDocumented, "cuMemHostRegister read-only, where the device cannot",
          {
            const CUresult got =
                w.cu->cuMemHostRegister_v2(spare(w), 4096, CU_MEMHOSTREGISTER_READ_ONLY);
            if (got == kOk) (void)w.cu->cuMemHostUnregister(spare(w));
            const bool can =
                w.device_attribute(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED) != 0;
            return got == (can ? kOk : kNotSupported) ? kOk : got;
          }),
    STEPS(kReady, kOk, kDocumented, "cuMemHostRegister again after cuMemHostUnregister",
          {
            (void)w.cu->cuMemHostRegister_v2(spare(w), 4096, 0);
            (void)w.cu->cuMemHostUnregister(spare(w));
            const CUresult result = w.cu->cuMemHostRegister_v2(spare(w), 4096, 0);
            return result == kOk ? w.cu->cuMemHostUnregister(spare(w)) : result;
          }),
    ROW(kReady, kValue, kDocumented, cuMemHostUnregister(nullptr)),
    ROW(kReady, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, kDocumented, cuMemHostUnregister(spare(w))),
    ROW(kReady, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, kDocumented,
        cuMemHostUnregister(inside(w.registered))),
    ROW(kReady, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, kDocumented, cuMemHostUnregister(w.pinned)),
    STEPS(kReady, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, kDocumented, "cuMemHostUnregister twice",
          {
            (void)w.cu->cuMemHostRegister_v2(spare(w), 4096, 0);
            (void)w.cu->cuMemHostUnregister(spare(w));
            return w.cu->cuMemHostUnregister(spare(w));
          }),

    ROW(kReady, kValue, kDocumented, cuMemHostGetDevicePointer_v2(nullptr, w.pinned, 0)),
    ROW(kReady, kValue, kDocumented, cuMemHostGetDevicePointer_v2(&w.p, w.pinned, 1)),
    ROW(kReady, kValue, kDocumented, cuMemHostGetDevicePointer_v2(&w.p, nullptr, 0)),
    ROW(kReady, kValue, kDocumented, cuMemHostGetDevicePointer_v2(&w.p, w.pageable.data(), 0)),
    ROW(kReady, kValue, kDocumented, cuMemHostGetDevicePointer_v2(&w.p, past(w), 0)),
    STEPS(kReady, kOk, kDocumented, "cuMemHostGetDevicePointer inside an allocation",
          {
            const CUresult result = w.cu->cuMemHostGetDevicePointer_v2(&w.p, inside(w.pinned), 0);
            return result != kOk || w.p == reinterpret_cast<CUdeviceptr>(inside(w.pinned)) ? result
                                                                                           : kValue;
          }),
    ROW(kReady, kValue, kDocumented, cuMemHostGetFlags(nullptr, w.pinned)),
    ROW(kReady, kValue, kDocumented, cuMemHostGetFlags(&w.u, nullptr)),
    ROW(kReady, kValue, kDocumented, cuMemHostGetFlags(&w.u, w.pageable.data())),
    ROW(kReady, kValue, kDocumented, cuMemHostGetFlags(&w.u, past(w))),
    ROW(kReady, kOk, kDocumented, cuMemHostGetFlags(&w.u, inside(w.pinned))),

    ROW(kInactive, kDestroyed, kDocumented, cuMemHostAlloc(&w.v, 4096, 0)),
    ROW(kDead, kDestroyed, kDocumented, cuMemHostAlloc(&w.v, 4096, 0)),
    ROW(kDead, kDestroyed, kDocumented, cuMemHostRegister_v2(&w, 64, 0)),
    ROW(kDead, kDestroyed, kDocumented, cuMemHostUnregister(&w)),
    ROW(kDead, kDestroyed, kDocumented, cuMemFreeHost(&w)),
    ROW(kFault, kIllegal, kDocumented, cuMemHostAlloc(&w.v, 4096, 0)),
    ROW(kFault, kIllegal, kDocumented, cuMemHostRegister_v2(spare(w), 4096, 0)),
    ROW(kFault, kIllegal, kDocumented, cuMemFreeHost(w.pinned)),
    ROW(kFault, kIllegal, kDocumented, cuMemHostUnregister(w.registered)),
    ROW(kForked, kNotInit, kOurs, cuMemHostAlloc(&w.v, 4096, 0)),
    ROW(kForked, kNotInit, kOurs, cuMemFreeHost(w.pinned)),
    ROW(kForked, kNotInit, kOurs, cuMemHostUnregister(w.registered)),
};

}  // namespace

const std::span<const Row> kHostRows = kRows;

}  // namespace vgpu::fidelity
