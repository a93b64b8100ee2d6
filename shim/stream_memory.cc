// Waits for values in memory, and writes of them, in a stream's order. The functions are in
// api/calls.
// SPDX-License-Identifier: Apache-2.0
#include "api/calls/hooks.h"
#include "shim/capture_hooks.h"
#include "shim/memory_operation.h"

namespace vgpu::calls {

using shim::Context;
using shim::enter;
using shim::find_stream;
using shim::Session;
using shim::StreamRef;

CUresult run_operations(CUstream handle, unsigned count, const CUstreamBatchMemOpParams* params,
                        unsigned flags) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  StreamRef stream;
  if (CUresult r = find_stream(*session, context, handle, &stream); r != CUDA_SUCCESS) return r;
  if (count == 0 || count > kStreamMemoryOperationsMax || params == nullptr || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (graph::watching()) [[unlikely]] {
    const auto taken =
        graph::capture_operations(shim::key_of(*context, stream), count, params, flags);
    if (taken.has_value()) return *taken;
  }
  StreamMemoryOperation operations[kStreamMemoryOperationsMax];
  if (CUresult r = shim::read_operations(*session, *context, count, params, operations);
      r != CUDA_SUCCESS)
    return r;
  for (unsigned i = 0; i < count; ++i) {
    if (operations[i].operation == MemoryOperation::kNone) continue;
    wire::StreamMemoryArgs args = shim::operation_args(operations[i]);
    args.stream = stream.id;
    if (session->post(context, Op::kStreamMemory, args, {}, &stream) == 0) return session->lost();
  }
  return CUDA_SUCCESS;
}

}  // namespace vgpu::calls
