// cuGetProcAddress: the newest variant of a name that is not newer than what the caller asks for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <span>

namespace vgpu::cudart {

// One symbol. Rows are sorted: plain ones before per-thread ones, then by name, then oldest first.
struct SymbolRow {
  const char* base;
  int version;      // first CUDA version that has it
  bool per_thread;  // a _ptsz or _ptds form
  void* address;    // nullptr: the symbol is known but not served
};

// As cuGetProcAddress_v2 documents it: a miss stores nullptr and returns CUDA_ERROR_NOT_FOUND with
// the reason in `status` (optional). A symbol that is not served is a miss, so that callers can do
// without it.
CUresult get_proc_address(std::span<const SymbolRow> rows, const char* name, void** address,
                          int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status);

}  // namespace vgpu::cudart
