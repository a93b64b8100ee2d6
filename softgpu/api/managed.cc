// Managed memory: host and device share all pages, so nothing ever moves.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/calls/hooks.h"
#include "driver_functions.h"
#include "softgpu/api/capture_hooks.h"
#include "softgpu/api/driver.h"

namespace vgpu::calls {

ManagedRanges& managed_ranges() { return softgpu::Driver::instance().managed; }

}  // namespace vgpu::calls

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::Driver;
using softgpu::enter;
using softgpu::MemoryKind;

// The stream of a call that cannot become a node.
CUresult check_stream(CUstream handle) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  const std::shared_ptr<softgpu::Stream> stream = softgpu::find_stream(*context, handle);
  if (stream == nullptr) return green::lost_stream(handle);
  if (!graph::watching()) [[likely]]
    return CUDA_SUCCESS;
  return graph::capture_nothing(softgpu::key_of(*stream)).value_or(CUDA_SUCCESS);
}

CUresult check_context() {
  Context* context = nullptr;
  return enter(&context);
}

}  // namespace

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr || bytes == 0 || !attach_flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = graph::check_unsafe(); r != CUDA_SUCCESS) return r;
  const uint64_t address =
      context->device().memory().allocate_host(bytes, flags, context->id, MemoryKind::kManaged);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  calls::managed_ranges().add(address, bytes);
  *out = address;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                             const char* name) {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  const auto library = Driver::instance().libraries.find(handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t at = 0, size = 0;
  const CUresult result = library->managed_variable(name, &at, &size);
  if (result != CUDA_SUCCESS) return result;
  if (address != nullptr) *address = at;
  if (bytes != nullptr) *bytes = size;
  return CUDA_SUCCESS;
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                        CUmemLocation location) {
  if (const CUresult result = check_context(); result != CUDA_SUCCESS) return result;
  return calls::managed_ranges().advise(address, bytes, advice, location);
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device) {
  return driver::cuMemAdvise_v2(address, bytes, advice, location_of(device));
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location,
                               unsigned int flags, CUstream stream) {
  if (const CUresult result = check_stream(stream); result != CUDA_SUCCESS) return result;
  return calls::managed_ranges().prefetch(address, bytes, location, flags);
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream) {
  return driver::cuMemPrefetchAsync_v2(address, bytes, location_of(device), 0, stream);
}

CUresult cuMemRangeGetAttribute(void* data, size_t data_bytes, CUmem_range_attribute which,
                                CUdeviceptr address, size_t bytes) {
  if (const CUresult result = check_context(); result != CUDA_SUCCESS) return result;
  return calls::managed_ranges().get(data, data_bytes, which, address, bytes);
}

CUresult cuMemRangeGetAttributes(void** data, size_t* data_bytes, CUmem_range_attribute* which,
                                 size_t count, CUdeviceptr address, size_t bytes) {
  if (const CUresult result = check_context(); result != CUDA_SUCCESS) return result;
  return calls::managed_ranges().get(data, data_bytes, which, count, address, bytes);
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes,
                                unsigned int flags) {
  if (const CUresult result = check_stream(stream); result != CUDA_SUCCESS) return result;
  return calls::managed_ranges().attach(address, bytes, flags, stream == nullptr);
}

}  // namespace vgpu::driver
