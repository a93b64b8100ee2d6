// Waits for values in memory, and writes of them, in a stream's order. The functions are in
// api/calls.
// SPDX-License-Identifier: Apache-2.0
#include "api/calls/hooks.h"
#include "softgpu/api/capture_hooks.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/memory_operation.h"

namespace vgpu::calls {

using softgpu::Context;

CUresult run_operations(CUstream handle, unsigned count, const CUstreamBatchMemOpParams* params,
                        unsigned flags) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  const std::shared_ptr<softgpu::Stream> stream = softgpu::find_stream(*context, handle);
  if (stream == nullptr || stream->context != context) return green::lost_stream(handle);
  if (count == 0 || count > kStreamMemoryOperationsMax || params == nullptr || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (graph::watching()) [[unlikely]] {
    const auto taken = graph::capture_operations(softgpu::key_of(*stream), count, params, flags);
    if (taken.has_value()) return *taken;
  }
  std::vector<StreamMemoryOperation> operations;
  const CUresult result = softgpu::read_operations(*context, count, params, &operations);
  if (result != CUDA_SUCCESS) return result;
  for (const StreamMemoryOperation& operation : operations) {
    if (operation.operation == MemoryOperation::kNone) continue;
    context->device().management().submit(stream->queue, softgpu::memory_command(operation));
  }
  return CUDA_SUCCESS;
}

}  // namespace vgpu::calls
