// Memory pools: one server's each. Devices in structures are translated to that server's numbers.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <vector>

#include "driver_functions.h"
#include "router/place.h"

namespace vgpu::driver {

using router::by_current;
using router::by_device;
using router::by_handle;
using router::Place;

namespace {

// The server of a location; the current context's for the host's, or for none.
Place place_of(const CUmemLocation* location) {
  const bool device = location != nullptr && location->type == CU_MEM_LOCATION_TYPE_DEVICE;
  return device ? by_device(location->id) : by_current();
}

CUmemLocation own(const Place& at, const CUmemLocation& location) {
  CUmemLocation mine = location;
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) mine.id = at.local(location.id);
  return mine;
}

// `call` with the location as the server numbers it.
template <typename Call>
CUresult with_own(const Place& at, CUmemLocation* location, const Call& call) {
  if (at.result != CUDA_SUCCESS) return at.result;
  if (location == nullptr) return call(location);
  CUmemLocation mine = own(at, *location);
  return call(&mine);
}

}  // namespace

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* props) {
  const Place at = place_of(props != nullptr ? &props->location : nullptr);
  if (at.result == CUDA_ERROR_INVALID_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (at.result != CUDA_SUCCESS) return at.result;
  if (props == nullptr) return at->cuMemPoolCreate(pool, props);
  CUmemPoolProps mine = *props;
  mine.location = own(at, props->location);
  return at->cuMemPoolCreate(pool, &mine);
}

// Devices of other servers never reach a pool.
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  const Place at = by_handle(pool);
  if (at.result != CUDA_SUCCESS) return at.result;
  if (map == nullptr) return at->cuMemPoolSetAccess(pool, map, count);
  std::vector<CUmemAccessDesc> mine(map, map + count);
  for (CUmemAccessDesc& each : mine) each.location = own(at, each.location);
  return at->cuMemPoolSetAccess(pool, mine.data(), count);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  const Place at = by_handle(pool);
  return with_own(at, location,
                  [&](CUmemLocation* mine) { return at->cuMemPoolGetAccess(flags, pool, mine); });
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                CUmemAllocationType type) {
  const Place at = place_of(location);
  return with_own(at, location, [&](CUmemLocation* mine) {
    return at->cuMemGetDefaultMemPool(pool, mine, type);
  });
}

CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  const Place at = place_of(location);
  return with_own(at, location,
                  [&](CUmemLocation* mine) { return at->cuMemGetMemPool(pool, mine, type); });
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  const Place at = place_of(location);
  return with_own(at, location,
                  [&](CUmemLocation* mine) { return at->cuMemSetMemPool(mine, type, pool); });
}

}  // namespace vgpu::driver
