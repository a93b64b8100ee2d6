// Device memory: cuMemAlloc, cuMemFree and what is asked about them.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/external/external_memory.h"
#include "api/graph/capture.h"
#include "api/graph/memory.h"
#include "driver_functions.h"
#include "shim/host_block.h"

namespace vgpu::driver {

using shim::Allocation;
using shim::Context;
using shim::enter;
using shim::HostBlock;
using shim::Session;
using shim::VirtualPlace;

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = graph::check_unsafe(); r != CUDA_SUCCESS) return r;
  uint64_t address = 0;
  shim::DeviceMemory& memory = session->memory_of(*context);
  CUresult result = memory.allocate(bytes, context->id, &address);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && session->pools()->give_back(context->device))
      [[unlikely]]
    result = memory.allocate(bytes, context->id, &address);
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                            unsigned int element) {
  constexpr size_t kPitchStep =
      512;  // what textures and coalesced rows of every generation are content with
  if (out == nullptr || pitch == nullptr || width == 0 || height == 0 ||
      width > SIZE_MAX - kPitchStep || (element != 4 && element != 8 && element != 16)) {
    Session* session;
    Context* context;
    const CUresult r = enter(&session, &context);
    return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
  }
  const size_t row = (width + kPitchStep - 1) / kPitchStep * kPitchStep;
  size_t bytes = 0;
  if (__builtin_mul_overflow(row, height, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = driver::cuMemAlloc_v2(out, bytes);
  if (result == CUDA_SUCCESS) *pitch = row;
  return result;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (address == 0) return CUDA_SUCCESS;
  if (CUresult r = graph::check_unsafe(); r != CUDA_SUCCESS) return r;
  if (const auto freed = graph::free_memory(address)) return *freed;
  const CUresult result = session->memory().free(address);
  if (result != CUDA_ERROR_INVALID_VALUE) [[likely]]
    return result;
  if (session->pools()->free_now(address)) return CUDA_SUCCESS;
  if (external::free_buffer(address)) return CUDA_SUCCESS;
  HostBlock block;
  if (!session->host_memory().remove(address, shim::HostKind::kManaged, &block)) return result;
  session->managed().remove(address);
  return shim::end_host_block(*session, context, block);
}

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  shim::DeviceMemory& memory = session->memory_of(*context);
  const uint64_t used = memory.used() + session->guest_device(context->device).used_beside();
  if (total != nullptr) *total = memory.total();
  if (free != nullptr) *free = memory.total() - std::min(used, memory.total());
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  Allocation allocation;
  HostBlock block;
  VirtualPlace place;
  if (session->virtual_memory().look(address, &place)) {
    if (place.bytes == 0) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = place.base;
    if (bytes != nullptr) *bytes = place.bytes;
  } else if (session->memory().find(address, &allocation)) {
    if (base != nullptr) *base = allocation.address;
    if (bytes != nullptr) *bytes = allocation.bytes;
  } else if (session->host_memory().find(address, &block) && block.in_place) {
    if (base != nullptr) *base = block.address;
    if (bytes != nullptr) *bytes = block.bytes;
  } else {
    return CUDA_ERROR_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
