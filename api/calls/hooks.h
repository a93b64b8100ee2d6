// What the calls of this folder ask of the library that they are part of. Each function is defined
// by shim/ and by softgpu/api/, in the file of its family.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace vgpu::calls {

// The checks of every call that needs a current context, then INVALID_CONTEXT unless `handle` is a
// context that is alive. (peer)
CUresult check_context(CUcontext handle);

// cuStreamBatchMemOp. (stream_memory)
CUresult run_operations(CUstream stream, unsigned count, const CUstreamBatchMemOpParams* params,
                        unsigned flags);

}  // namespace vgpu::calls
