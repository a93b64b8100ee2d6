// Values that libcudart keeps per context: its slots call this once per runtime call, so reading
// takes no lock. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace vgpu::cudart {

using StorageDestructor = void (*)(CUcontext, void* key, void* value);

// A null context or (CUcontext)-1 means the current one; CUDA_ERROR_INVALID_CONTEXT when there is
// none.
CUresult storage_put(CUcontext context, void* key, void* value, StorageDestructor destructor);
CUresult storage_remove(CUcontext context, void* key);  // without calling the destructor
CUresult storage_get(void** value, CUcontext context,
                     void* key);  // CUDA_ERROR_INVALID_HANDLE: no entry

// To be called when a context is destroyed or reset: runs the destructors of its values, newest
// first.
void run_context_destructors(CUcontext context);

}  // namespace vgpu::cudart
