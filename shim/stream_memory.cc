// Waits for values in memory, and writes of them, in a stream's order.
// SPDX-License-Identifier: Apache-2.0
#include "api/stream_memory.h"

#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "shim/device.h"
#include "shim/stream_table.h"

namespace vgpu::driver {

using shim::Allocation;
using shim::attribute;
using shim::Context;
using shim::enter;
using shim::find_stream;
using shim::HostBlock;
using shim::Session;
using shim::StreamRef;

namespace {

constexpr int kDriverVersionMin = 11070;  // the second version of these functions

CUresult check(Session& session, Context* context, const StreamMemoryOperation& operation) {
  const protocol::DeviceSnapshot& device = *session.device(context->device);
  if (operation.bytes() == 8 &&
      attribute(device, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) == 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (operation.condition == CU_STREAM_WAIT_VALUE_NOR &&
      attribute(device, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR) == 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Allocation allocation;
  HostBlock block;
  if (session.memory().find(operation.address, &allocation)) {
    const uint64_t left = allocation.bytes - (operation.address - allocation.address);
    return operation.bytes() <= left ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  if (!session.host_memory().find(operation.address, &block)) return CUDA_ERROR_INVALID_VALUE;
  if (operation.bytes() > block.bytes - (operation.address - block.address))
    return CUDA_ERROR_INVALID_VALUE;
  return block.in_place ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;  // the device cannot reach it
}

CUresult run(CUstream handle, unsigned count, const CUstreamBatchMemOpParams* params,
             unsigned flags) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  StreamRef stream;
  if (CUresult r = find_stream(*session, context, handle, &stream); r != CUDA_SUCCESS) return r;
  if (count == 0 || count > kStreamMemoryOperationsMax || params == nullptr || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (session->hello().driver_version < kDriverVersionMin) return CUDA_ERROR_NOT_SUPPORTED;
  StreamMemoryOperation operations[kStreamMemoryOperationsMax];
  for (unsigned i = 0; i < count; ++i) {
    CUresult result = read_stream_memory_operation(params[i], &operations[i]);
    if (result == CUDA_SUCCESS && operations[i].operation != MemoryOperation::kNone)
      result = check(*session, context, operations[i]);
    if (result != CUDA_SUCCESS) return result;
  }
  for (unsigned i = 0; i < count; ++i) {
    if (operations[i].operation == MemoryOperation::kNone) continue;
    wire::StreamMemoryArgs args;
    args.stream = stream.id;
    args.address = operations[i].address;
    args.value = operations[i].value;
    args.operation = static_cast<uint32_t>(operations[i].operation);
    args.condition = operations[i].condition;
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
