// Waits for values in memory and writes of them, as the worker is told.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_MEMORY_OPERATION_H_
#define VGPU_SHIM_MEMORY_OPERATION_H_

#include "api/stream_memory.h"
#include "shim/process.h"

namespace vgpu::shim {

// Reads and checks `count` entries.
CUresult read_operations(Session& session, const Context& context, unsigned count,
                         const CUstreamBatchMemOpParams* params, StreamMemoryOperation* operations);

// The stream is left out.
wire::StreamMemoryArgs operation_args(const StreamMemoryOperation& operation);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_MEMORY_OPERATION_H_
