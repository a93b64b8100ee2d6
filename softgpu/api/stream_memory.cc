// Waits for values in memory, and writes of them, in a stream's order.
// SPDX-License-Identifier: Apache-2.0
#include "api/stream_memory.h"

#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "softgpu/api/driver.h"

namespace vgpu::driver {
namespace {

using softgpu::Command;
using softgpu::CommandKind;
using softgpu::Context;

uint64_t load(const StreamMemoryOperation& operation) {
  if (operation.bytes() == 8)
    return __atomic_load_n(reinterpret_cast<const uint64_t*>(operation.address), __ATOMIC_ACQUIRE);
  return __atomic_load_n(reinterpret_cast<const uint32_t*>(operation.address), __ATOMIC_ACQUIRE);
}

void store(const StreamMemoryOperation& operation) {
  if (operation.bytes() == 8) {
    __atomic_store_n(reinterpret_cast<uint64_t*>(operation.address), operation.value,
                     __ATOMIC_RELEASE);
  } else {
    __atomic_store_n(reinterpret_cast<uint32_t*>(operation.address),
                     static_cast<uint32_t>(operation.value), __ATOMIC_RELEASE);
  }
}

std::unique_ptr<Command> make_command(const StreamMemoryOperation& operation) {
  auto command = std::make_unique<Command>();
  if (operation.operation == MemoryOperation::kWait32 ||
      operation.operation == MemoryOperation::kWait64) {
    command->kind = CommandKind::kWatch;
    command->ready = [operation] { return wait_is_over(operation, load(operation)); };
  } else {
    command->kind = CommandKind::kCopy;
    command->work = [operation] { store(operation); };
  }
  return command;
}

CUresult run(CUstream handle, unsigned count, const CUstreamBatchMemOpParams* params,
             unsigned flags) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  const std::shared_ptr<softgpu::Stream> stream = softgpu::find_stream(*context, handle);
  if (stream == nullptr || stream->context != context) return CUDA_ERROR_INVALID_HANDLE;
  if (count == 0 || count > kStreamMemoryOperationsMax || params == nullptr || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<StreamMemoryOperation> operations(count);
  for (unsigned i = 0; i < count; ++i) {
    const CUresult result = read_stream_memory_operation(params[i], &operations[i]);
    if (result != CUDA_SUCCESS) return result;
    if (operations[i].operation != MemoryOperation::kNone &&
        !context->device().memory().covers(operations[i].address, operations[i].bytes())) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  for (const StreamMemoryOperation& operation : operations) {
    if (operation.operation == MemoryOperation::kNone) continue;
    context->device().management().submit(stream->queue, make_command(operation));
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
