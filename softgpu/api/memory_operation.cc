// Looking at a word of memory, and writing one.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/memory_operation.h"

namespace vgpu::softgpu {
namespace {

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

}  // namespace

std::unique_ptr<Command> memory_command(const StreamMemoryOperation& operation) {
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

CUresult read_operations(Context& context, unsigned count, const CUstreamBatchMemOpParams* params,
                         std::vector<StreamMemoryOperation>* operations) {
  operations->resize(count);
  for (unsigned i = 0; i < count; ++i) {
    StreamMemoryOperation& operation = (*operations)[i];
    const CUresult result = read_stream_memory_operation(params[i], &operation);
    if (result != CUDA_SUCCESS) return result;
    if (operation.operation != MemoryOperation::kNone &&
        !context.device().memory().covers(operation.address, operation.bytes())) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace vgpu::softgpu
