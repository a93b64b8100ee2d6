// What the cudart contract needs to know of the library it lives in (the shim or the software GPU).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>

namespace vgpu::cudart {

// Functions of the host library. All must be callable from any thread at any time, also after
// static destructors ran.
struct Host {
  CUresult (*current_context)(CUcontext*);  // success with nullptr when none is current
  CUresult (*primary_context)(CUcontext*,
                              CUdevice);  // the handle only: nothing is created or made current
  CUresult (*context_id)(CUcontext, uint64_t*);  // stable and non-zero
  int (*driver_version)();
  int (*device_count)();
  CUresult (*device_identity)(int ordinal, CUuuid*, int* pci_domain, int* pci_bus, int* pci_device);
  uint64_t (*each_kernel)(CUmodule, void (*visit)(void* user, CUfunction, uint64_t), void* user);
  CUresult (*load_module)(CUmodule*, const void* image);  // as cuModuleLoadData
};

// Before any other call into cudart/; by any thread, always the same.
void set_host(const Host* host);
const Host& host();

}  // namespace vgpu::cudart
