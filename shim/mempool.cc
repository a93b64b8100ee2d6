// Memory pools and stream-ordered allocation: answered here, over the guest's own memory.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/default_stream.h"
#include "api/graph/memory.h"
#include "driver_functions.h"
#include "shim/capture_hooks.h"

namespace vgpu::driver {

using shim::Context;
using shim::enter;
using shim::find_any_stream;
using shim::GuestPools;
using shim::handle_of;
using shim::id_of;
using shim::Session;
using shim::StreamRef;

namespace {

struct Place {
  Session* session = nullptr;
  Context* context = nullptr;
  StreamRef stream;
  StreamPlace at() const { return GuestPools::place(*context, stream); }
};

CUresult look_up(CUstream stream, Place* place) {
  if (CUresult r = enter(&place->session, &place->context); r != CUDA_SUCCESS) return r;
  if (stream == nullptr) stream = default_stream();
  return find_any_stream(*place->session, stream, &place->stream, &place->context);
}

CUresult allocate(uint64_t pool, CUdeviceptr* out, size_t bytes, CUstream stream) {
  Place place;
  if (CUresult r = look_up(stream, &place); r != CUDA_SUCCESS) return r;
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (graph::watching()) [[unlikely]] {
    const auto taken = graph::capture_alloc(shim::key_of(*place.context, place.stream), bytes, out);
    if (taken.has_value()) return *taken;
  }
  uint64_t address = 0;
  const CUresult result =
      place.session->pools()->allocate(place.context->device, pool, bytes, place.at(), &address);
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

CUresult check_device(CUdevice device, Session** session) {
  if (CUresult r = enter(session); r != CUDA_SUCCESS) return r;
  return (*session)->device(device) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

// Pools are of pinned memory of a device.
CUresult check_location(const CUmemLocation* location, CUmemAllocationType type,
                        Session** session) {
  if (CUresult r = enter(session); r != CUDA_SUCCESS) return r;
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = check_pool_kind(location->type, type); r != CUDA_SUCCESS) return r;
  return check_device(location->id, session);
}

}  // namespace

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  return allocate(0, out, bytes, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
  if (pool == nullptr) {
    Session* session;
    Context* context;
    const CUresult r = enter(&session, &context);
    return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
  }
  return allocate(id_of(pool), out, bytes, stream);
}

// Memory of cuMemAlloc may be freed in a stream's order too: here it is as freed at once, since
// nothing is used again before all work submitted so far is past.
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  Place place;
  if (CUresult r = look_up(stream, &place); r != CUDA_SUCCESS) return r;
  if (address == 0) return CUDA_ERROR_INVALID_VALUE;
  if (graph::watching()) [[unlikely]] {
    const auto taken = graph::capture_free(shim::key_of(*place.context, place.stream), address);
    if (taken.has_value()) return *taken;
  }
  if (const auto freed = graph::free_memory(address)) return *freed;
  if (place.session->pools()->free(address, place.at())) return CUDA_SUCCESS;
  return place.session->memory().free(address);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  Session* session;
  if (CUresult r = check_device(device, &session); r != CUDA_SUCCESS) return r;
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool = handle_of<CUmemoryPool>(session->pools()->default_pool(device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  Session* session;
  if (CUresult r = check_device(device, &session); r != CUDA_SUCCESS) return r;
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool = handle_of<CUmemoryPool>(session->pools()->current(device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  Session* session;
  if (CUresult r = check_device(device, &session); r != CUDA_SUCCESS) return r;
  return session->pools()->set_current(device, id_of(pool));
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                CUmemAllocationType type) {
  Session* session;
  if (CUresult r = check_location(location, type, &session); r != CUDA_SUCCESS) return r;
  return driver::cuDeviceGetDefaultMemPool(pool, location->id);
}

CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  Session* session;
  if (CUresult r = check_location(location, type, &session); r != CUDA_SUCCESS) return r;
  return driver::cuDeviceGetMemPool(pool, location->id);
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  Session* session;
  if (CUresult r = check_location(location, type, &session); r != CUDA_SUCCESS) return r;
  return driver::cuDeviceSetMemPool(location->id, pool);
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t id = 0;
  const CUresult result = session->pools()->create(properties, &id);
  if (result == CUDA_SUCCESS) *pool = handle_of<CUmemoryPool>(id);
  return result;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  PoolName name;
  const CUresult result = session->pools()->destroy(id_of(pool), &name);
  if (name == PoolName()) return result;
  wire::MemUnshareArgs args;
  args.secret_low = name.secret_low;
  args.secret_high = name.secret_high;
  return session->post(nullptr, Op::kMemUnshare, args) != 0 ? result : session->lost();
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  return session->pools()->get_attribute(id_of(pool), which, value);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  return session->pools()->set_attribute(id_of(pool), which, value);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  return session->pools()->get_access(id_of(pool), location, flags);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* descriptions, size_t count) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  return session->pools()->set_access(id_of(pool), descriptions, count);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  CUdevice device = 0;
  const CUresult result = session->pools()->trim(id_of(pool), keep, &device);
  if (result == CUDA_SUCCESS) session->guest_device(device).memory().give_back_free();
  return result;
}

}  // namespace vgpu::driver
