// Libraries and kernels as the program sees them; launches that say where in a structure.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/default_stream.h"
#include "driver_functions.h"
#include "router/place.h"

namespace vgpu::driver {

using router::by_current;
using router::Libraries;
using router::Place;
using router::Server;
using router::SharedLibrary;

namespace {

bool stays_where_it_is(const CUlibraryOption* options, void** values, unsigned count) {
  for (unsigned i = 0; options != nullptr && i < count; ++i) {
    if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED)
      return values == nullptr || values[i] != nullptr;
  }
  return false;
}

// At the current context's server now; at the others now too unless `later` can be done later.
template <typename Load>
CUresult load(CUlibrary* out, router::ImageSource source, bool later, const Load& load_at) {
  const Place at = by_current();
  if (at.result != CUDA_SUCCESS) return at.result;
  if (out == nullptr) return load_at(*at.server, out);
  auto library = std::make_unique<SharedLibrary>();
  if (CUresult r = load_at(*at.server, &library->at[at.server->number]); r != CUDA_SUCCESS)
    return r;
  if (later) library->source = std::move(source);
  for (Server& server : router::Servers::attached()->all()) {
    if (later || &server == at.server) continue;
    CUlibrary there = nullptr;
    const CUresult r = load_at(server, &there);
    if (r == CUDA_SUCCESS) library->at[server.number] = there;
    library->failure[server.number] = r;
  }
  *out = Libraries::instance().add(std::move(library));
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option* jit_options,
                           void** jit_values, unsigned int jit_count, CUlibraryOption* options,
                           void** values, unsigned int count) {
  const bool later = jit_count == 0 && stays_where_it_is(options, values, count);
  return load(out, {code, ""}, later, [&](Server& server, CUlibrary* own) {
    return server.driver.cuLibraryLoadData(own, code, jit_options, jit_values, jit_count, options,
                                           values, count);
  });
}

CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option* jit_options,
                               void** jit_values, unsigned int jit_count, CUlibraryOption* options,
                               void** values, unsigned int count) {
  return load(out, {}, false, [&](Server& server, CUlibrary* own) {
    return server.driver.cuLibraryLoadFromFile(own, path, jit_options, jit_values, jit_count,
                                               options, values, count);
  });
}

CUresult cuLibraryUnload(CUlibrary library) {
  const Place at = by_current();
  return at.result != CUDA_SUCCESS ? at.result : Libraries::instance().unload(library);
}

CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  const Place at = by_current();
  if (at.result != CUDA_SUCCESS) return at.result;
  CUlibrary own = handle;
  if (CUresult r = at.own(&own); r != CUDA_SUCCESS) return r;
  if (CUresult r = at->cuLibraryGetKernel(out, own, name); r != CUDA_SUCCESS) return r;
  SharedLibrary* library = Libraries::instance().find(handle);
  return library == nullptr ? CUDA_ERROR_INVALID_HANDLE
                            : Libraries::instance().kernel(*at.server, library, *out, out);
}

CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int count, CUlibrary handle) {
  const Place at = by_current();
  if (at.result != CUDA_SUCCESS) return at.result;
  CUlibrary own = handle;
  if (CUresult r = at.own(&own); r != CUDA_SUCCESS) return r;
  unsigned have = 0;
  if (CUresult r = at->cuLibraryGetKernelCount(&have, own); r != CUDA_SUCCESS) return r;
  if (CUresult r = at->cuLibraryEnumerateKernels(kernels, count, own); r != CUDA_SUCCESS) return r;
  SharedLibrary* library = Libraries::instance().find(handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (unsigned i = 0; i < count && i < have; ++i) {
    CUkernel& each = kernels[i];
    if (CUresult r = Libraries::instance().kernel(*at.server, library, each, &each);
        r != CUDA_SUCCESS)
      return r;
  }
  return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel kernel) {
  const Place at = by_current();
  if (at.result != CUDA_SUCCESS) return at.result;
  const auto* found = Libraries::instance().find(reinterpret_cast<CUfunction>(kernel));
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = Libraries::instance().handle_of(found->library);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params,
                          void** extra) {
  const Place at = config == nullptr ? by_current() : router::by_stream(config->hStream);
  if (at.result != CUDA_SUCCESS) return at.result;
  if (CUresult r = at.own(&function); r != CUDA_SUCCESS) return r;
  if (config == nullptr || !per_thread_default || config->hStream != nullptr)
    return at->cuLaunchKernelEx(config, function, params, extra);
  CUlaunchConfig own = *config;
  own.hStream = CU_STREAM_PER_THREAD;
  return at->cuLaunchKernelEx(&own, function, params, extra);
}

}  // namespace vgpu::driver
