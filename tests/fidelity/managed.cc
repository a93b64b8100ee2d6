// Managed memory: allocations, advice and what is asked about it.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr auto kMostly = CU_MEM_ADVISE_SET_READ_MOSTLY;
constexpr auto kPrefer = CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
constexpr CUmemLocation kHere = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
constexpr CUmemLocation kNowhere = {CU_MEM_LOCATION_TYPE_DEVICE, 99};
constexpr size_t kBytes = 65536;

// Calls `use` with managed memory of kBytes.
template <typename Use>
CUresult with_managed(World& w, Use&& use) {
  CUdeviceptr p = 0;
  const CUresult made = w.cu->cuMemAllocManaged(&p, kBytes, CU_MEM_ATTACH_GLOBAL);
  if (made != CUDA_SUCCESS) return made;
  const CUresult result = use(p);
  (void)w.cu->cuMemFree_v2(p);
  return result;
}

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuMemAllocManaged(&w.p, kBytes, CU_MEM_ATTACH_GLOBAL)),
    ROW(kFresh, kNotInit, kDocumented, cuMemAdvise_v2(0x1000, kBytes, kMostly, kHere)),
    ROW(kNoContext, kContext, kDocumented, cuMemAllocManaged(&w.p, kBytes, CU_MEM_ATTACH_GLOBAL)),
    ROW(kReady, kValue, kDocumented, cuMemAllocManaged(nullptr, kBytes, CU_MEM_ATTACH_GLOBAL)),
    ROW(kReady, kValue, kDocumented, cuMemAllocManaged(&w.p, 0, CU_MEM_ATTACH_GLOBAL)),
    ROW(kReady, kValue, kDocumented, cuMemAllocManaged(&w.p, kBytes, 0)),
    ROW(kReady, kValue, kDocumented, cuMemAllocManaged(&w.p, kBytes, CU_MEM_ATTACH_SINGLE)),
    ROW(kReady, kValue, kDocumented, cuMemAllocManaged(&w.p, kBytes, 99)),
    ROW(kReady, kValue, kDocumented, cuMemAdvise_v2(w.memory, 4096, kMostly, kHere)),
    ROW(kReady, kValue, kDocumented, cuMemAdvise_v2(0x40, 4096, kMostly, kHere)),
    ROW(kReady, kValue, kDocumented, cuMemPrefetchAsync_v2(w.memory, 4096, kHere, 0, w.stream)),
    ROW(kReady, kValue, kDocumented,
        cuMemRangeGetAttribute(&w.i, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, w.memory, 4096)),
    ROW(kReady, kValue, kDocumented,
        cuStreamAttachMemAsync(w.stream, w.memory, 0, CU_MEM_ATTACH_GLOBAL)),
    STEPS(kReady, kValue, kDocumented, "cuMemAdvise of no bytes",
          {
            return with_managed(
                w, [&w](CUdeviceptr p) { return w.cu->cuMemAdvise_v2(p, 0, kMostly, kHere); });
          }),
    STEPS(kReady, kValue, kDocumented, "cuMemAdvise beyond the end",
          {
            return with_managed(w, [&w](CUdeviceptr p) {
              return w.cu->cuMemAdvise_v2(p, kBytes + 1, kMostly, kHere);
            });
          }),
    STEPS(kReady, kValue, kDocumented, "cuMemAdvise of no known kind",
          {
            return with_managed(w, [&w](CUdeviceptr p) {
              return w.cu->cuMemAdvise_v2(p, kBytes, static_cast<CUmem_advise>(99), kHere);
            });
          }),
    STEPS(kReady, kDevice, kDocumented, "cuMemAdvise for a device that is not there",
          {
            return with_managed(w, [&w](CUdeviceptr p) {
              return w.cu->cuMemAdvise_v2(p, kBytes, kPrefer, kNowhere);
            });
          }),
    STEPS(kReady, kDevice, kDocumented, "cuMemPrefetchAsync to a device that is not there",
          {
            return with_managed(w, [&w](CUdeviceptr p) {
              return w.cu->cuMemPrefetchAsync_v2(p, kBytes, kNowhere, 0, w.stream);
            });
          }),
    STEPS(kReady, kValue, kDocumented, "cuMemPrefetchAsync with flags",
          {
            return with_managed(w, [&w](CUdeviceptr p) {
              return w.cu->cuMemPrefetchAsync_v2(p, kBytes, kHere, 1, w.stream);
            });
          }),
    STEPS(kReady, kHandle, kOurs, "cuMemPrefetchAsync in a stream that is gone",
          {
            return with_managed(w, [&w](CUdeviceptr p) {
              return w.cu->cuMemPrefetchAsync_v2(p, kBytes, kHere, 0, w.stale_stream);
            });
          }),
    STEPS(kReady, kValue, kDocumented, "cuMemRangeGetAttribute of the wrong size",
          {
            return with_managed(w, [&w](CUdeviceptr p) {
              return w.cu->cuMemRangeGetAttribute(&w.ull, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p,
                                                  kBytes);
            });
          }),
    STEPS(kReady, kValue, kDocumented, "cuMemRangeGetAttribute without room",
          {
            return with_managed(w, [&w](CUdeviceptr p) {
              return w.cu->cuMemRangeGetAttribute(nullptr, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p,
                                                  kBytes);
            });
          }),
    STEPS(kReady, kValue, kDocumented, "cuStreamAttachMemAsync to the null stream alone",
          {
            return with_managed(w, [&w](CUdeviceptr p) {
              return w.cu->cuStreamAttachMemAsync(nullptr, p, 0, CU_MEM_ATTACH_SINGLE);
            });
          }),
    STEPS(kReady, kValue, kDocumented, "cuStreamAttachMemAsync of a part",
          {
            return with_managed(w, [&w](CUdeviceptr p) {
              return w.cu->cuStreamAttachMemAsync(w.stream, p, 4096, CU_MEM_ATTACH_GLOBAL);
            });
          }),
    STEPS(kReady, kValue, kDocumented, "cuMemFreeHost of managed memory",
          {
            return with_managed(
                w, [&w](CUdeviceptr p) { return w.cu->cuMemFreeHost(reinterpret_cast<void*>(p)); });
          }),
    ROW(kReady, kHandle, kDocumented,
        cuLibraryGetManaged(&w.p, &w.size, World::garbage<CUlibrary>(), "counter")),
    ROW(kReady, kNotFound, kDocumented, cuLibraryGetManaged(&w.p, &w.size, w.library, "nothing")),
    ROW(kReady, kNotFound, kDocumented, cuLibraryGetManaged(&w.p, &w.size, w.library, "counter")),
    ROW(kFresh, kNotInit, kDocumented, cuMemDiscardBatchAsync(nullptr, nullptr, 0, 0, w.stream)),
    ROW(kNoContext, kContext, kDocumented,
        cuMemDiscardBatchAsync(nullptr, nullptr, 0, 0, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemDiscardBatchAsync(nullptr, nullptr, 0, 0, w.stream)),
    ROW(kReady, kValue, kDocumented, cuMemDiscardBatchAsync(&w.memory, nullptr, 1, 0, w.stream)),
    ROW(kReady, kHandle, kDocumented,
        cuMemDiscardBatchAsync(nullptr, nullptr, 0, 0, w.stale_stream)),
    ROW(kReady, kValue, kDocumented,
        cuMemPrefetchBatchAsync(nullptr, nullptr, 1, nullptr, nullptr, 1, 0, w.stream)),
    ROW(kReady, kValue, kDocumented,
        cuMemDiscardAndPrefetchBatchAsync(nullptr, nullptr, 1, nullptr, nullptr, 1, 0, w.stream)),
    STEPS(kReady, kValue, kDocumented, "cuMemDiscardBatchAsync of memory that is not managed",
          {
            w.size = 4096;
            return w.cu->cuMemDiscardBatchAsync(&w.memory, &w.size, 1, 0, w.stream);
          }),
    ROW(kDead, kDestroyed, kOurs, cuMemAllocManaged(&w.p, kBytes, CU_MEM_ATTACH_GLOBAL)),
    ROW(kForked, kNotInit, kOurs, cuMemAllocManaged(&w.p, kBytes, CU_MEM_ATTACH_GLOBAL)),
};

}  // namespace

const std::span<const Row> kManagedRows = kRows;

}  // namespace vgpu::fidelity
