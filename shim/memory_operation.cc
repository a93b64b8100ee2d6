// What of a request the device can do.
// SPDX-License-Identifier: Apache-2.0
#include "shim/memory_operation.h"

#include "shim/device.h"

namespace vgpu::shim {
namespace {

constexpr int kDriverVersionMin = 11070;  // the second version of these functions

CUresult check(Session& session, const Context& context, const StreamMemoryOperation& operation) {
  const protocol::DeviceSnapshot& device = *session.device(context.device);
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

}  // namespace

CUresult read_operations(Session& session, const Context& context, unsigned count,
                         const CUstreamBatchMemOpParams* params,
                         StreamMemoryOperation* operations) {
  if (session.hello().driver_version < kDriverVersionMin) return CUDA_ERROR_NOT_SUPPORTED;
  for (unsigned i = 0; i < count; ++i) {
    CUresult result = read_stream_memory_operation(params[i], &operations[i]);
    if (result == CUDA_SUCCESS && operations[i].operation != MemoryOperation::kNone)
      result = check(session, context, operations[i]);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

wire::StreamMemoryArgs operation_args(const StreamMemoryOperation& operation) {
  wire::StreamMemoryArgs args;
  args.address = operation.address;
  args.value = operation.value;
  args.operation = static_cast<uint32_t>(operation.operation);
  args.condition = operation.condition;
  return args;
}

}  // namespace vgpu::shim
