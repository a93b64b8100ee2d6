// Managed memory: pages that guest and worker share, so nothing ever moves.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/calls/hooks.h"
#include "driver_functions.h"
#include "shim/capture_hooks.h"
#include "shim/host_block.h"
#include "shim/module_table.h"
#include "shim/stream_table.h"

namespace vgpu::driver {

using shim::Context;
using shim::enter;
using shim::find_any_stream;
using shim::HostBlock;
using shim::HostKind;
using shim::Session;
using shim::StreamRef;

namespace {

CUresult look_up(Session** session) {
  Context* context;
  return enter(session, &context);
}

// The same for a call that works in a stream and cannot become a node.
CUresult look_up(Session** session, CUstream stream) {
  Context* context;
  StreamRef found;
  if (CUresult r = enter(session, &context); r != CUDA_SUCCESS) return r;
  if (CUresult r = find_any_stream(**session, stream, &found, &context); r != CUDA_SUCCESS)
    return r;
  if (!graph::watching()) [[likely]]
    return CUDA_SUCCESS;
  return graph::capture_nothing(shim::key_of(*context, found)).value_or(CUDA_SUCCESS);
}

}  // namespace

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr || bytes == 0 || !attach_flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = graph::check_unsafe(); r != CUDA_SUCCESS) return r;
  if (!shim::shares_host_memory(*session)) return CUDA_ERROR_NOT_SUPPORTED;
  HostBlock block;
  block.kind = HostKind::kManaged;
  const CUresult result = shim::make_host_block(*session, context, bytes, &block);
  if (result != CUDA_SUCCESS) return result;
  session->managed().add(block.address, bytes);
  *out = block.address;
  return CUDA_SUCCESS;
}

// libcudart asks for them before any context is current.
CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                             const char* name) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  shim::Module* library = session->libraries.find(shim::id_of(handle));
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUdeviceptr found = 0;
  const CUresult result = shim::find_global(*session, nullptr, library, name, &found, bytes);
  if (result != CUDA_SUCCESS) return result;
  if (!session->managed().contains(found)) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = found;
  return CUDA_SUCCESS;
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                        CUmemLocation location) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  return session->managed().advise(address, bytes, advice, location);
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device) {
  return driver::cuMemAdvise_v2(address, bytes, advice, location_of(device));
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location,
                               unsigned int flags, CUstream stream) {
  Session* session;
  if (CUresult r = look_up(&session, stream); r != CUDA_SUCCESS) return r;
  return session->managed().prefetch(address, bytes, location, flags);
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream) {
  return driver::cuMemPrefetchAsync_v2(address, bytes, location_of(device), 0, stream);
}

CUresult cuMemRangeGetAttribute(void* data, size_t data_bytes, CUmem_range_attribute which,
                                CUdeviceptr address, size_t bytes) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  return session->managed().get(data, data_bytes, which, address, bytes);
}

CUresult cuMemRangeGetAttributes(void** data, size_t* data_bytes, CUmem_range_attribute* which,
                                 size_t count, CUdeviceptr address, size_t bytes) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  return session->managed().get(data, data_bytes, which, count, address, bytes);
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes,
                                unsigned int flags) {
  Session* session;
  if (CUresult r = look_up(&session, stream); r != CUDA_SUCCESS) return r;
  return session->managed().attach(address, bytes, flags, stream == nullptr);
}

}  // namespace vgpu::driver

namespace vgpu::calls {

ManagedRanges& managed_ranges() { return shim::Process::session()->managed(); }

}  // namespace vgpu::calls
