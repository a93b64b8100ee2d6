// Memory pools and stream-ordered allocation.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/graph/memory.h"
#include "driver_functions.h"
#include "softgpu/api/capture_hooks.h"
#include "softgpu/api/driver.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::DevicePools;
using softgpu::Driver;
using softgpu::enter;
using softgpu::id_of;
using softgpu::Stream;

DevicePools& pools() { return Driver::instance().pools(); }

CUresult look_up(CUstream handle, Context** context, std::shared_ptr<Stream>* stream) {
  if (const CUresult result = enter(context); result != CUDA_SUCCESS) return result;
  *stream = softgpu::find_stream(**context, handle);
  return *stream == nullptr ? green::lost_stream(handle) : CUDA_SUCCESS;
}

CUresult allocate(uint64_t pool, CUdeviceptr* out, size_t bytes, CUstream handle) {
  Context* context = nullptr;
  std::shared_ptr<Stream> stream;
  if (const CUresult result = look_up(handle, &context, &stream); result != CUDA_SUCCESS)
    return result;
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (graph::watching()) [[unlikely]] {
    if (const auto taken = graph::capture_alloc(softgpu::key_of(*stream), bytes, out))
      return *taken;
  }
  uint64_t address = 0;
  const int device = stream->context->device().config().ordinal;
  const CUresult result =
      pools()->allocate(device, pool, bytes, DevicePools::place(*stream), &address);
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

// Pools are of pinned memory of a device.
CUresult check_location(const CUmemLocation* location, CUmemAllocationType type) {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_pool_kind(location->type, type); r != CUDA_SUCCESS) return r;
  return softgpu::check_device(location->id);
}

// Calls about pools need the driver and its device, but no current context.
CUresult ready_for_pools() {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  return Driver::instance().device_count() != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  return allocate(0, out, bytes, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
  if (pool == nullptr) {
    Context* context = nullptr;
    const CUresult result = enter(&context);
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  return allocate(id_of(pool), out, bytes, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  Context* context = nullptr;
  std::shared_ptr<Stream> stream;
  if (const CUresult result = look_up(handle, &context, &stream); result != CUDA_SUCCESS)
    return result;
  if (address == 0) return CUDA_ERROR_INVALID_VALUE;
  if (graph::watching()) [[unlikely]] {
    if (const auto taken = graph::capture_free(softgpu::key_of(*stream), address)) return *taken;
  }
  if (const auto freed = graph::free_memory(address)) return *freed;
  const auto range = context->device().memory().find(address);
  if (!range.has_value() || range->base != address) return CUDA_ERROR_INVALID_VALUE;
  // Memory of cuMemAlloc may be freed in a stream's order too; it is, by waiting.
  if (!range->pooled) return driver::cuMemFree_v2(address);
  return pools()->free(address, pools().end_of(*stream)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  if (const CUresult r = softgpu::check_device(device); r != CUDA_SUCCESS) return r;
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool = DevicePools::handle(pools()->default_pool(device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  if (const CUresult r = softgpu::check_device(device); r != CUDA_SUCCESS) return r;
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool = DevicePools::handle(pools()->current(device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  if (const CUresult r = softgpu::check_device(device); r != CUDA_SUCCESS) return r;
  return pools()->set_current(device, id_of(pool));
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                CUmemAllocationType type) {
  if (const CUresult r = check_location(location, type); r != CUDA_SUCCESS) return r;
  return driver::cuDeviceGetDefaultMemPool(pool, location->id);
}

CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  if (const CUresult r = check_location(location, type); r != CUDA_SUCCESS) return r;
  return driver::cuDeviceGetMemPool(pool, location->id);
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  if (const CUresult r = check_location(location, type); r != CUDA_SUCCESS) return r;
  return driver::cuDeviceSetMemPool(location->id, pool);
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  if (const CUresult r = ready_for_pools(); r != CUDA_SUCCESS) return r;
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t id = 0;
  const CUresult result = pools()->create(properties, &id);
  if (result == CUDA_SUCCESS) *pool = DevicePools::handle(id);
  return result;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  if (const CUresult r = ready_for_pools(); r != CUDA_SUCCESS) return r;
  PoolName name;  // what others have imported they keep
  return pools()->destroy(id_of(pool), &name);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
  if (const CUresult r = ready_for_pools(); r != CUDA_SUCCESS) return r;
  return pools()->get_attribute(id_of(pool), which, value);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
  if (const CUresult r = ready_for_pools(); r != CUDA_SUCCESS) return r;
  return pools()->set_attribute(id_of(pool), which, value);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  if (const CUresult r = ready_for_pools(); r != CUDA_SUCCESS) return r;
  return pools()->get_access(id_of(pool), location, flags);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* descriptions, size_t count) {
  if (const CUresult r = ready_for_pools(); r != CUDA_SUCCESS) return r;
  return pools()->set_access(id_of(pool), descriptions, count);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  if (const CUresult r = ready_for_pools(); r != CUDA_SUCCESS) return r;
  int device = 0;
  return pools()->trim(id_of(pool), keep, &device);
}

}  // namespace vgpu::driver
