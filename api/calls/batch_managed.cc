// Batches of prefetches and discards. Host and device share the pages of managed memory, so nothing
// moves, and what is discarded keeps its contents, as it may.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/calls/batch.h"
#include "api/calls/hooks.h"
#include "driver_functions.h"

namespace vgpu::driver {
namespace {

using calls::managed_ranges;

struct Ranges {
  const CUdeviceptr* addresses;
  const size_t* bytes;
  size_t count;
};

struct Locations {
  const CUmemLocation* locations;
  const size_t* starts;
  size_t count;
};

CUresult begin(const Ranges& ranges, unsigned long long flags,  // NOLINT(google-runtime-int)
               CUstream stream) {
  if (const CUresult r = calls::begin_batch(stream); r != CUDA_SUCCESS) return r;
  const bool good =
      ranges.addresses != nullptr && ranges.bytes != nullptr && ranges.count != 0 && flags == 0;
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// All of them, or none.
CUresult prefetch(const Ranges& ranges, const Locations& to,
                  unsigned long long flags,  // NOLINT(google-runtime-int)
                  CUstream stream) {
  if (const CUresult r = begin(ranges, flags, stream); r != CUDA_SUCCESS) return r;
  if (to.locations == nullptr || !calls::cuts_batch(to.starts, to.count, ranges.count))
    return CUDA_ERROR_INVALID_VALUE;
  calls::RunOf checked(to.starts, to.count);
  for (size_t i = 0; i < ranges.count; ++i) {
    const CUresult r = managed_ranges().check_prefetch(ranges.addresses[i], ranges.bytes[i],
                                                       to.locations[checked.at(i)]);
    if (r != CUDA_SUCCESS) return r;
  }
  calls::RunOf done(to.starts, to.count);
  for (size_t i = 0; i < ranges.count; ++i) {
    const CUresult r = managed_ranges().prefetch(ranges.addresses[i], ranges.bytes[i],
                                                 to.locations[done.at(i)], 0);
    if (r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemPrefetchBatchAsync(CUdeviceptr* addresses, size_t* bytes, size_t count,
                                 CUmemLocation* locations, size_t* starts, size_t location_count,
                                 unsigned long long flags, CUstream stream) {
  return prefetch({addresses, bytes, count}, {locations, starts, location_count}, flags, stream);
}

CUresult cuMemDiscardBatchAsync(CUdeviceptr* addresses, size_t* bytes, size_t count,
                                unsigned long long flags, CUstream stream) {
  const Ranges ranges = {addresses, bytes, count};
  if (const CUresult r = begin(ranges, flags, stream); r != CUDA_SUCCESS) return r;
  for (size_t i = 0; i < count; ++i) {
    if (bytes[i] == 0 || !managed_ranges().contains(addresses[i], bytes[i]))
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* addresses, size_t* bytes, size_t count,
                                           CUmemLocation* locations, size_t* starts,
                                           size_t location_count, unsigned long long flags,
                                           CUstream stream) {
  return prefetch({addresses, bytes, count}, {locations, starts, location_count}, flags, stream);
}

}  // namespace vgpu::driver
