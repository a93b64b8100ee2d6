// Virtual memory management: reservations, physical memory, mappings.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr size_t kStep = size_t{2} << 20;
constexpr auto kFile = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUmemAllocationProp properties(int device) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return prop;
}

// Creates with the given properties, and releases what that made.
CUresult create(const World& w, size_t bytes, const CUmemAllocationProp& prop,
                unsigned long long flags = 0) {  // NOLINT(google-runtime-int): the driver's type
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = w.cu->cuMemCreate(&handle, bytes, &prop, flags);
  if (result == CUDA_SUCCESS) (void)w.cu->cuMemRelease(handle);
  return result;
}

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuMemAddressReserve(&w.p, kStep, 0, 0, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuMemRelease(1)),
    ROW(kReady, kValue, kDocumented, cuMemAddressReserve(nullptr, kStep, 0, 0, 0)),
    ROW(kReady, kValue, kDocumented, cuMemAddressReserve(&w.p, 0, 0, 0, 0)),
    ROW(kReady, kValue, kDocumented, cuMemAddressReserve(&w.p, 4095, 0, 0, 0)),
    ROW(kReady, kValue, kDocumented, cuMemAddressReserve(&w.p, kStep, 0, 0x1001, 0)),
    ROW(kReady, kValue, kDocumented, cuMemAddressReserve(&w.p, kStep, 3, 0, 0)),
    ROW(kReady, kValue, kDocumented, cuMemAddressReserve(&w.p, kStep, 0, 0, 1)),
    ROW(kReady, kValue, kDocumented, cuMemAddressFree(0x1000, kStep)),
    ROW(kReady, kValue, kDocumented, cuMemAddressFree(w.memory, kStep)),
    ROW(kReady, kValue, kDocumented, cuMemRelease(0)),
    ROW(kReady, kValue, kOurs, cuMemRelease(0x1234560)),
    ROW(kReady, kValue, kDocumented, cuMemMap(w.memory, kStep, 0, 0x1234560, 0)),
    ROW(kReady, kValue, kDocumented, cuMemUnmap(w.memory, kStep)),
    ROW(kReady, kValue, kDocumented, cuMemUnmap(0x40, 0)),
    ROW(kReady, kValue, kDocumented, cuMemSetAccess(w.memory, kStep, nullptr, 1)),
    ROW(kReady, kValue, kDocumented, cuMemGetAccess(nullptr, nullptr, w.memory)),
    ROW(kReady, kValue, kDocumented, cuMemRetainAllocationHandle(nullptr, nullptr)),
    ROW(kReady, kValue, kDocumented, cuMemGetAllocationPropertiesFromHandle(nullptr, 0)),
    ROW(kReady, kValue, kDocumented,
        cuMemGetAllocationGranularity(&w.size, nullptr, CU_MEM_ALLOC_GRANULARITY_MINIMUM)),
    STEPS(kReady, kOk, kDocumented, "cuMemCreate",
          { return create(w, kStep, properties(w.device)); }),
    STEPS(kReady, kValue, kDocumented, "cuMemCreate of no whole granules",
          { return create(w, kStep + 4096, properties(w.device)); }),
    STEPS(kReady, kValue, kDocumented, "cuMemCreate of nothing",
          { return create(w, 0, properties(w.device)); }),
    STEPS(kReady, kValue, kDocumented, "cuMemCreate with flags",
          { return create(w, kStep, properties(w.device), 1); }),
    STEPS(kReady, kDevice, kOurs, "cuMemCreate on a device that is not there",
          { return create(w, kStep, properties(99)); }),
    STEPS(kReady, kNoMemory, kDocumented, "cuMemCreate of too much",
          { return create(w, size_t{1} << 46, properties(w.device)); }),
    STEPS(kReady, kValue, kDocumented, "cuMemRelease twice",
          {
            const CUmemAllocationProp prop = properties(w.device);
            CUmemGenericAllocationHandle handle = 0;
            (void)w.cu->cuMemCreate(&handle, kStep, &prop, 0);
            (void)w.cu->cuMemRelease(handle);
            return w.cu->cuMemRelease(handle);
          }),
    STEPS(kReady, kValue, kDocumented, "cuMemFree of a reservation",
          {
            (void)w.cu->cuMemAddressReserve(&w.p, kStep, 0, 0, 0);
            const CUresult result = w.cu->cuMemFree_v2(w.p);
            (void)w.cu->cuMemAddressFree(w.p, kStep);
            return result;
          }),
    ROW(kReady, kValue, kDocumented, cuMemExportToShareableHandle(&w.i, 0x1234560, kFile, 0)),
    ROW(kReady, kValue, kDocumented, cuMemExportToShareableHandle(nullptr, 0x1234560, kFile, 0)),
    ROW(kReady, kValue, kDocumented, cuMemImportFromShareableHandle(nullptr, nullptr, kFile)),
    STEPS(kReady, kValue, kDocumented, "cuMemImportFromShareableHandle of no descriptor",
          {
            CUmemGenericAllocationHandle handle = 0;
            return w.cu->cuMemImportFromShareableHandle(&handle, nullptr, kFile);
          }),
    STEPS(kReady, kNotSupported, kOurs, "cuMemCreate of host memory",
          {
            CUmemAllocationProp prop = properties(0);
            prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
            return create(w, kStep, prop);
          }),
    STEPS(kReady, kValue, kDocumented, "cuMemCreate at a place that is for other calls",
          {
            CUmemAllocationProp prop = properties(0);
            prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
            return create(w, kStep, prop);
          }),
    STEPS(kReady, kValue, kOurs, "cuMemExportToShareableHandle of memory that was not made for it",
          {
            const CUmemAllocationProp prop = properties(w.device);
            CUmemGenericAllocationHandle handle = 0;
            (void)w.cu->cuMemCreate(&handle, kStep, &prop, 0);
            const CUresult result = w.cu->cuMemExportToShareableHandle(&w.i, handle, kFile, 0);
            (void)w.cu->cuMemRelease(handle);
            return result;
          }),
    ROW(kForked, kNotInit, kOurs, cuMemAddressReserve(&w.p, kStep, 0, 0, 0)),
};

}  // namespace

const std::span<const Row> kVmmRows = kRows;

}  // namespace vgpu::fidelity
