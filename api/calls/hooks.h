// What the calls of this folder ask of the library that they are part of. Each function is defined
// by shim/ and by softgpu/api/, in the file of its family.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>

#include "api/managed/managed_ranges.h"

namespace vgpu::calls {

// The checks of every call that needs a current context, then INVALID_CONTEXT unless `handle` is a
// context that is alive. (peer)
CUresult check_context(CUcontext handle);

// cuStreamBatchMemOp. (stream_memory)
CUresult run_operations(CUstream stream, unsigned count, const CUstreamBatchMemOpParams* params,
                        unsigned flags);

// When the copies of a batch may read what they copy. Filled as they are submitted.
struct SourceAccess {
  CUmemcpySrcAccessOrder order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;  // of the next copy
  bool caught_up = false;    // what was in the stream before the batch is known to be past
  bool wait_at_end = false;  // the call returns when the stream is done
};

// One copy of a batch, already checked, between two addresses of whatever kind. (memcpy)
CUresult copy_in_batch(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
                       SourceAccess* access);
// The same for a box. (memcpy_rect)
CUresult copy_in_batch(const CUDA_MEMCPY3D& box, CUstream stream, SourceAccess* access);

// Advice about managed memory. (managed)
ManagedRanges& managed_ranges();

}  // namespace vgpu::calls
