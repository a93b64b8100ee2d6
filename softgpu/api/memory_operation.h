// Waits for values in memory and writes of them, as commands of a queue.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "api/stream_memory.h"
#include "softgpu/api/context_object.h"

namespace vgpu::softgpu {

// INVALID_VALUE when one is none, or is not all in memory that the device knows.
CUresult read_operations(Context& context, unsigned count, const CUstreamBatchMemOpParams* params,
                         std::vector<StreamMemoryOperation>* operations);

std::unique_ptr<Command> memory_command(const StreamMemoryOperation& operation);

}  // namespace vgpu::softgpu
