// Waits for values in memory, and writes of them, in a stream's order.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "shim/capture_hooks.h"
#include "shim/memory_operation.h"

namespace vgpu::driver {

using shim::Context;
using shim::enter;
using shim::find_stream;
using shim::Session;
using shim::StreamRef;

namespace {

CUresult run(CUstream handle, unsigned count, const CUstreamBatchMemOpParams* params,
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

}  // namespace

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned int flags) {
  const CUstreamBatchMemOpParams params = wait_value(false, address, value, flags);
  return run(stream, 1, &params, 0);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned int flags) {
  const CUstreamBatchMemOpParams params = wait_value(true, address, value, flags);
  return run(stream, 1, &params, 0);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned int flags) {
  const CUstreamBatchMemOpParams params = write_value(false, address, value, flags);
  return run(stream, 1, &params, 0);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned int flags) {
  const CUstreamBatchMemOpParams params = write_value(true, address, value, flags);
  return run(stream, 1, &params, 0);
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                               CUstreamBatchMemOpParams* params, unsigned int flags) {
  return run(stream, count, params, flags);
}

}  // namespace vgpu::driver
