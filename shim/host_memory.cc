// Host memory: cuMemHostAlloc, in place on both sides, and cuMemHostRegister, which stays the
// application's own. SPDX-License-Identifier: Apache-2.0
#include "shim/host_memory.h"

#include <cuda.h>
#include <cudaProfiler.h>

#include "api/graph/capture.h"
#include "driver_functions.h"
#include "shim/host_block.h"

namespace vgpu::driver {

using shim::Context;
using shim::end_host_block;
using shim::enter;
using shim::HostBlock;
using shim::HostKind;
using shim::make_host_block;
using shim::Session;

namespace {

constexpr unsigned kAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

}  // namespace

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr || bytes == 0 || (flags & ~kAllocFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = graph::check_unsafe(); r != CUDA_SUCCESS) return r;
  HostBlock block;
  block.flags = flags;
  const CUresult result = make_host_block(*session, context, bytes, &block);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<void*>(block.address);
  return result;
}

CUresult cuMemAllocHost_v2(void** out, size_t bytes) {
  return driver::cuMemHostAlloc(out, bytes, 0);
}

CUresult cuMemFreeHost(void* pointer) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = graph::check_unsafe(); r != CUDA_SUCCESS) return r;
  HostBlock block;
  if (!session->host_memory().remove(reinterpret_cast<uint64_t>(pointer), HostKind::kAllocated,
                                     &block)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return end_host_block(*session, context, block);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int flags) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  HostBlock block;
  if (out == nullptr || flags != 0 ||
      !session->host_memory().find(reinterpret_cast<uint64_t>(pointer), &block)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!block.in_place)
    return CUDA_ERROR_NOT_SUPPORTED;  // the device cannot reach the application's own pages
  *out = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  HostBlock block;
  if (flags == nullptr ||
      !session->host_memory().find(reinterpret_cast<uint64_t>(pointer), &block)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // With unified addressing every allocation is portable and mapped.
  *flags = block.in_place ? block.flags | CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
                          : block.flags;
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int flags) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (pointer == nullptr || bytes == 0 || (flags & ~kRegisterFlags) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  HostBlock block;
  block.address = reinterpret_cast<uint64_t>(pointer);
  block.bytes = bytes;
  block.kind = HostKind::kRegistered;
  block.flags = flags;
  block.context = context->id;
  return session->host_memory().add(block) ? CUDA_SUCCESS
                                           : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostUnregister(void* pointer) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  HostBlock block;
  return session->host_memory().remove(reinterpret_cast<uint64_t>(pointer), HostKind::kRegistered,
                                       &block)
             ? CUDA_SUCCESS
             : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

}  // namespace vgpu::driver
