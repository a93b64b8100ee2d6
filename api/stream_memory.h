// The operations of cuStreamBatchMemOp and its relatives: what of a request is valid.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>

namespace vgpu {

enum class MemoryOperation : uint32_t { kNone, kWait32, kWait64, kWrite32, kWrite64 };

struct StreamMemoryOperation {
  MemoryOperation operation = MemoryOperation::kNone;  // kNone: nothing to do (a barrier)
  uint64_t address = 0;
  uint64_t value = 0;
  uint32_t condition = 0;  // of a wait: CU_STREAM_WAIT_VALUE_*
  uint32_t bytes() const {
    return operation == MemoryOperation::kWait64 || operation == MemoryOperation::kWrite64 ? 8 : 4;
  }
};

inline constexpr unsigned kStreamMemoryOperationsMax = 255;  // in one cuStreamBatchMemOp

// Reads one entry. INVALID_VALUE, or NOT_SUPPORTED for flushes of remote writes, which no device
// here offers, and for the reordering of writes, which the v2 functions exclude.
inline CUresult read_stream_memory_operation(const CUstreamBatchMemOpParams& params,
                                             StreamMemoryOperation* out) {
  *out = {};
  switch (params.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64: {
      const bool wide = params.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
      const unsigned flags = params.waitValue.flags;
      if ((flags & ~(3U | CU_STREAM_WAIT_VALUE_FLUSH)) != 0) return CUDA_ERROR_INVALID_VALUE;
      if ((flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
      out->operation = wide ? MemoryOperation::kWait64 : MemoryOperation::kWait32;
      out->address = params.waitValue.address;
      out->value = wide ? params.waitValue.value64 : params.waitValue.value;
      out->condition = flags;
      break;
    }
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: {
      const bool wide = params.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
      const unsigned flags = params.writeValue.flags;
      if ((flags & ~1U) != 0) return CUDA_ERROR_INVALID_VALUE;
      if (flags != 0) return CUDA_ERROR_NOT_SUPPORTED;
      out->operation = wide ? MemoryOperation::kWrite64 : MemoryOperation::kWrite32;
      out->address = params.writeValue.address;
      out->value = wide ? params.writeValue.value64 : params.writeValue.value;
      break;
    }
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return params.flushRemoteWrites.flags != 0 ? CUDA_ERROR_INVALID_VALUE
                                                 : CUDA_ERROR_NOT_SUPPORTED;
    case CU_STREAM_MEM_OP_BARRIER:
      // Operations of one stream are in order already.
      return params.memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU
                 ? CUDA_ERROR_INVALID_VALUE
                 : CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return out->address == 0 || out->address % out->bytes() != 0 ? CUDA_ERROR_INVALID_VALUE
                                                               : CUDA_SUCCESS;
}

// Entries for the functions that have no array.
inline CUstreamBatchMemOpParams wait_value(bool wide, CUdeviceptr address, uint64_t value,
                                           unsigned flags) {
  CUstreamBatchMemOpParams params = {};
  params.waitValue.operation =
      wide ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32;
  params.waitValue.address = address;
  params.waitValue.value64 = value;
  params.waitValue.flags = flags;
  return params;
}
inline CUstreamBatchMemOpParams write_value(bool wide, CUdeviceptr address, uint64_t value,
                                            unsigned flags) {
  CUstreamBatchMemOpParams params = {};
  params.writeValue.operation =
      wide ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
  params.writeValue.address = address;
  params.writeValue.value64 = value;
  params.writeValue.flags = flags;
  return params;
}

// Whether a wait is over.
inline bool wait_is_over(const StreamMemoryOperation& wait, uint64_t seen) {
  const bool wide = wait.operation == MemoryOperation::kWait64;
  const uint64_t mask = wide ? ~uint64_t{0} : 0xffffffffU;
  switch (wait.condition) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return wide ? static_cast<int64_t>(seen - wait.value) >= 0
                  : static_cast<int32_t>(static_cast<uint32_t>(seen - wait.value)) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return ((seen ^ wait.value) & mask) == 0;
    case CU_STREAM_WAIT_VALUE_AND:
      return (seen & wait.value & mask) != 0;
    default:
      return (~(seen | wait.value) & mask) != 0;
  }
}

}  // namespace vgpu
