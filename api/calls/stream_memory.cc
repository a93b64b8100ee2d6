// Waits for values in memory, and writes of them: each is a batch of one.
// SPDX-License-Identifier: Apache-2.0
#include "api/stream_memory.h"

#include <cuda.h>
#include <cudaProfiler.h>

#include "api/calls/hooks.h"
#include "driver_functions.h"

namespace vgpu::driver {

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned int flags) {
  const CUstreamBatchMemOpParams params = wait_value(false, address, value, flags);
  return calls::run_operations(stream, 1, &params, 0);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned int flags) {
  const CUstreamBatchMemOpParams params = wait_value(true, address, value, flags);
  return calls::run_operations(stream, 1, &params, 0);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned int flags) {
  const CUstreamBatchMemOpParams params = write_value(false, address, value, flags);
  return calls::run_operations(stream, 1, &params, 0);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned int flags) {
  const CUstreamBatchMemOpParams params = write_value(true, address, value, flags);
  return calls::run_operations(stream, 1, &params, 0);
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                               CUstreamBatchMemOpParams* params, unsigned int flags) {
  return calls::run_operations(stream, count, params, flags);
}

}  // namespace vgpu::driver
