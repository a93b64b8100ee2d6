// Pointer attributes, from what the shim knows of device and host memory.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "shim/process.h"
#include "shim/share.h"

namespace vgpu::driver {

using shim::Allocation;
using shim::enter;
using shim::handle_of;
using shim::HostBlock;
using shim::Session;

namespace {

struct Known {
  bool device = false, host = false;
  uint64_t address = 0, base = 0, bytes = 0, id = 0, context = 0;
  bool in_place = false;
  uint64_t pool = 0;
  bool shareable = false;    // by cuIpcGetMemHandle
  bool synchronous = false;  // cuPointerSetAttribute has said so
  bool managed = false;      // in whichever table it is
  bool reserved = false;     // addresses of cuMemAddressReserve, whatever is mapped there
  int device_number = 0;
  shim::VirtualPlace place;
  uint64_t key() const { return device ? id : base; }
  // Of mapped memory, for the device that is asked from.
  CUmemAccess_flags flags() const {
    const shim::Context* current = shim::current_context();
    return place.flags[static_cast<size_t>(current != nullptr ? current->device : device_number)];
  }
};

Known look_up(Session& session, uint64_t address) {
  Known known;
  known.address = address;
  Allocation allocation;
  HostBlock block;
  if (session.virtual_memory().look(address, &known.place)) {
    known.reserved = true;
    known.device = known.place.bytes != 0;
    known.base = known.place.base;
    known.bytes = known.place.bytes;
    known.id = known.place.handle;
    known.device_number = known.place.device;
  } else if (session.memory().find(address, &allocation)) {
    known.device = true;
    known.base = allocation.address;
    known.bytes = allocation.bytes;
    known.id = allocation.id;
    known.context = allocation.context;
    known.device_number = allocation.device;
    known.pool = session.pools()->pool_of(allocation.address);
    known.shareable = shim::shares_memory(session) && session.memory().can_share(address);
  } else if (session.host_memory().find(address, &block)) {
    known.host = true;
    known.base = block.address;
    known.bytes = block.bytes;
    known.context = block.context;
    const shim::Context* owner = session.contexts().find(handle_of<CUcontext>(block.context));
    if (owner != nullptr) known.device_number = owner->device;
    known.in_place = block.in_place;
  }
  known.managed = session.managed().contains(address);
  std::lock_guard lock(session.shared().mutex);
  known.synchronous = session.shared().synchronous.count(known.key()) != 0;
  return known;
}

// CUDA 13.0 knows 21 attributes, numbered from 1.
bool attribute_valid(CUpointer_attribute which) { return static_cast<unsigned>(which) - 1U < 21; }

constexpr auto kDecompression = static_cast<CUpointer_attribute>(21);  // older headers lack it

template <typename T>
CUresult put(void* data, T value) {
  *static_cast<T*>(data) = value;
  return CUDA_SUCCESS;
}

// INVALID_VALUE: the attribute has no value for this pointer.
CUresult get(const Known& known, CUpointer_attribute which, void* data) {
  const bool any = known.device || known.host;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return any ? put<CUcontext>(data, handle_of<CUcontext>(known.context))
                 : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      if (!any) return CUDA_ERROR_INVALID_VALUE;
      return put<unsigned>(
          data, known.device || known.managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return known.device || known.in_place ? put<CUdeviceptr>(data, known.address)
                                            : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return known.host || known.managed ? put<void*>(data, reinterpret_cast<void*>(known.address))
                                         : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return any ? put<unsigned>(data, known.synchronous) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return known.device ? put<unsigned long long>(data, known.id) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return any ? put<bool>(data, known.managed) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return any ? put<int>(data, known.device_number) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      if (known.reserved) return put<CUdeviceptr>(data, known.place.reserved_base);
      return any ? put<CUdeviceptr>(data, known.base) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      if (known.reserved) return put<size_t>(data, known.place.reserved_bytes);
      return any ? put<size_t>(data, known.bytes) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put<bool>(data, known.device || known.in_place);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put<bool>(data, known.shareable);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return put<bool>(data, false);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put<unsigned long long>(data, known.place.handle_types);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
      if (!any) return CUDA_ERROR_INVALID_VALUE;
      if (known.reserved) return put<unsigned>(data, known.flags());
      const bool reached = known.device || known.in_place;
      return put<unsigned>(data, reached ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                                         : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
    }
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return any ? put<CUmemoryPool>(data, handle_of<CUmemoryPool>(known.pool))
                 : CUDA_ERROR_INVALID_VALUE;
    // An allocation is one mapping here, whatever the worker has behind it.
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return any ? put<size_t>(data, known.bytes) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return any ? put<CUdeviceptr>(data, known.base) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      if (!any) return CUDA_ERROR_INVALID_VALUE;
      return put<unsigned long long>(data, known.device ? known.id : known.base);
    case kDecompression:
      return put<bool>(data, false);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// What cuPointerGetAttributes stores where there is no value.
void clear(CUpointer_attribute which, void* data) {
  switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      put<unsigned>(data, 0);
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      put<int>(data, CU_DEVICE_INVALID);
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
      put<bool>(data, false);
      break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      put<unsigned>(data, 0);
      break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      put<unsigned>(data, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
      break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      put<uint64_t>(data, 0);
      break;
    default:
      break;
  }
}

}  // namespace

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr address) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  if (data == nullptr || !attribute_valid(which)) return CUDA_ERROR_INVALID_VALUE;
  return get(look_up(*session, address), which, data);
}

// For the whole session: to wait more often than asked for is allowed.
CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute which, CUdeviceptr address) {
  Session* session;
  shim::Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (value == nullptr || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
    return CUDA_ERROR_INVALID_VALUE;
  const Known known = look_up(*session, address);
  if (!known.device && !known.host) return CUDA_ERROR_INVALID_VALUE;
  shim::SharedMemory& shared = session->shared();
  const bool on = *static_cast<const unsigned*>(value) != 0;
  {
    std::lock_guard lock(shared.mutex);
    if (!on) {
      shared.synchronous.erase(known.key());
      return CUDA_SUCCESS;
    }
    shared.synchronous.insert(known.key());
  }
  shared.any.store(true);
  return driver::cuCtxSynchronize();  // what is under way is over when this returns
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  if (count == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Known known = look_up(*session, address);
  for (unsigned i = 0; i < count; ++i) {
    if (data[i] == nullptr || !attribute_valid(attributes[i])) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = get(known, attributes[i], data[i]);
    if (result == CUDA_ERROR_NOT_SUPPORTED) return result;
    if (result != CUDA_SUCCESS) clear(attributes[i], data[i]);
  }
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
