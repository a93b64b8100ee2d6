// Memory pools and stream-ordered allocation.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr auto kThreshold = CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
constexpr auto kFile = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr size_t kHuge = size_t{1} << 46;

CUmemoryPool default_pool(const World& w) {
  CUmemoryPool pool = nullptr;
  (void)w.cu->cuDeviceGetDefaultMemPool(&pool, w.device);
  return pool;
}

CUmemPoolProps properties(const World& w) {
  CUmemPoolProps made = {};
  made.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  made.location = {CU_MEM_LOCATION_TYPE_DEVICE, w.device};
  return made;
}

CUresult create(const World& w, const CUmemPoolProps& wanted) {
  CUmemoryPool pool = nullptr;
  const CUresult result = w.cu->cuMemPoolCreate(&pool, &wanted);
  if (result == CUDA_SUCCESS) (void)w.cu->cuMemPoolDestroy(pool);
  return result;
}

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuMemAllocAsync(&w.p, 4096, nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuMemFreeAsync(0x1000, nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuMemAllocAsync(&w.p, 4096, nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuMemFreeAsync(0x1000, nullptr)),
    ROW(kReady, kValue, kDocumented, cuMemAllocAsync(nullptr, 4096, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemAllocAsync(&w.p, 0, w.stream)),
    ROW(kReady, kNoMemory, kDocumented, cuMemAllocAsync(&w.p, kHuge, w.stream)),
    ROW(kReady, kNoMemory, kDocumented, cuMemAllocAsync(&w.p, SIZE_MAX, w.stream)),
    ROW(kReady, kHandle, kOurs, cuMemAllocAsync(&w.p, 4096, w.stale_stream)),
    ROW(kReady, kHandle, kOurs, cuMemAllocAsync(&w.p, 4096, World::garbage<CUstream>())),
    ROW(kReady, kValue, kDocumented, cuMemAllocFromPoolAsync(&w.p, 4096, nullptr, w.stream)),
    ROW(kReady, kValue, kOurs,
        cuMemAllocFromPoolAsync(&w.p, 4096, World::garbage<CUmemoryPool>(), w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemFreeAsync(0, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemFreeAsync(0x40, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemFreeAsync(w.freed, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemFreeAsync(w.memory + 256, w.stream)),
    ROW(kReady, kHandle, kOurs, cuMemFreeAsync(w.memory, w.stale_stream)),
    ROW(kReady, kValue, kDocumented, cuDeviceGetDefaultMemPool(nullptr, w.device)),
    ROW(kReady, kDevice, kDocumented,
        cuDeviceGetDefaultMemPool(reinterpret_cast<CUmemoryPool*>(&w.v), 99)),
    ROW(kReady, kValue, kDocumented, cuDeviceSetMemPool(w.device, nullptr)),
    ROW(kReady, kValue, kOurs, cuDeviceSetMemPool(w.device, World::garbage<CUmemoryPool>())),
    ROW(kReady, kValue, kDocumented, cuMemPoolDestroy(nullptr)),
    ROW(kReady, kValue, kOurs, cuMemPoolDestroy(World::garbage<CUmemoryPool>())),
    ROW(kReady, kValue, kDocumented, cuMemPoolDestroy(default_pool(w))),
    ROW(kReady, kValue, kOurs, cuMemPoolTrimTo(World::garbage<CUmemoryPool>(), 0)),
    ROW(kReady, kValue, kDocumented, cuMemPoolGetAttribute(default_pool(w), kThreshold, nullptr)),
    ROW(kReady, kValue, kDocumented,
        cuMemPoolGetAttribute(default_pool(w), static_cast<CUmemPool_attribute>(99), &w.ull)),
    ROW(kReady, kValue, kDocumented,
        cuMemPoolSetAttribute(default_pool(w), CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &w.ull)),
    ROW(kReady, kValue, kDocumented,
        cuMemPoolExportToShareableHandle(&w.i, default_pool(w), kFile, 0)),
    ROW(kReady, kValue, kOurs,
        cuMemPoolExportToShareableHandle(&w.i, World::garbage<CUmemoryPool>(), kFile, 0)),
    ROW(kReady, kValue, kDocumented,
        cuMemPoolExportToShareableHandle(nullptr, default_pool(w), kFile, 0)),
    ROW(kReady, kValue, kDocumented,
        cuMemPoolImportFromShareableHandle(nullptr, nullptr, kFile, 0)),
    ROW(kReady, kValue, kDocumented,
        cuMemPoolImportFromShareableHandle(reinterpret_cast<CUmemoryPool*>(&w.v),
                                           reinterpret_cast<void*>(intptr_t{-1}), kFile, 0)),
    ROW(kReady, kValue, kDocumented,
        cuMemPoolImportFromShareableHandle(reinterpret_cast<CUmemoryPool*>(&w.v),
                                           reinterpret_cast<void*>(intptr_t{-1}), kFile, 1)),
    ROW(kReady, kValue, kDocumented, cuMemPoolExportPointer(nullptr, w.memory)),
    STEPS(kReady, kValue, kDocumented, "cuMemPoolExportPointer of memory of no pool",
          {
            CUmemPoolPtrExportData data;
            return w.cu->cuMemPoolExportPointer(&data, w.memory);
          }),
    STEPS(kReady, kValue, kDocumented, "cuMemPoolExportPointer of a pool that is not shared",
          {
            CUmemPoolPtrExportData data;
            (void)w.cu->cuMemAllocAsync(&w.p, 4096, w.stream);
            const CUresult result = w.cu->cuMemPoolExportPointer(&data, w.p);
            (void)w.cu->cuMemFreeAsync(w.p, w.stream);
            return result;
          }),
    STEPS(kReady, kValue, kDocumented, "cuMemPoolImportPointer from a pool of this process",
          {
            CUmemPoolPtrExportData data = {};
            return w.cu->cuMemPoolImportPointer(&w.p, default_pool(w), &data);
          }),
    ROW(kFresh, kNotInit, kDocumented, cuMemPoolExportToShareableHandle(&w.i, nullptr, kFile, 0)),
    ROW(kReady, kValue, kDocumented, cuMemPoolCreate(nullptr, nullptr)),
    ROW(kReady, kValue, kDocumented,
        cuMemPoolCreate(reinterpret_cast<CUmemoryPool*>(&w.v), nullptr)),
    STEPS(kReady, kValue, kDocumented, "cuMemPoolCreate without a kind of memory",
          {
            CUmemPoolProps wanted = properties(w);
            wanted.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
            return create(w, wanted);
          }),
    STEPS(kReady, kDevice, kOurs, "cuMemPoolCreate on a device that is not there",
          {
            CUmemPoolProps wanted = properties(w);
            wanted.location.id = 99;
            return create(w, wanted);
          }),
    STEPS(kReady, kValue, kDocumented, "cuMemPoolCreate with reserved bytes set",
          {
            CUmemPoolProps wanted = properties(w);
            wanted.reserved[3] = 1;
            return create(w, wanted);
          }),
    STEPS(kReady, kOk, kDocumented, "cuMemPoolCreate", { return create(w, properties(w)); }),
    STEPS(kReady, kValue, kDocumented, "cuMemFreeAsync twice",
          {
            (void)w.cu->cuMemAllocAsync(&w.p, 4096, w.stream);
            (void)w.cu->cuMemFreeAsync(w.p, w.stream);
            return w.cu->cuMemFreeAsync(w.p, w.stream);
          }),
    ROW(kDead, kDestroyed, kOurs, cuMemAllocAsync(&w.p, 4096, nullptr)),
    ROW(kFault, kIllegal, kConfirmed, cuMemAllocAsync(&w.p, 4096, nullptr)),
    ROW(kForked, kNotInit, kOurs, cuMemAllocAsync(&w.p, 4096, nullptr)),
};

}  // namespace

const std::span<const Row> kMempoolRows = kRows;

}  // namespace vgpu::fidelity
