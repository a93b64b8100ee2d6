// Fills: cuMemset*.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/default_stream.h"
#include "driver_functions.h"
#include "shim/stream_table.h"

namespace vgpu::driver {

using shim::Allocation;
using shim::Context;
using shim::enter;
using shim::find_stream;
using shim::Session;
using shim::StreamRef;

namespace {

CUresult fill(uint64_t to, uint32_t value, uint32_t width, uint64_t count, CUstream handle) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (handle == nullptr) handle = default_stream();
  StreamRef stream;
  if (CUresult r = find_stream(*session, context, handle, &stream); r != CUDA_SUCCESS) return r;
  if (count == 0) return CUDA_SUCCESS;
  Allocation allocation;
  if (to % width != 0 || !session->memory().find(to, &allocation) ||
      count > (allocation.bytes - (to - allocation.address)) / width) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  wire::FillArgs args;
  args.destination = to;
  args.count = count;
  args.stream = stream.id;
  args.value = value;
  args.width = width;
  return session->post(context, Op::kFill, args, {}, &stream) != 0 ? CUDA_SUCCESS : session->lost();
}

}  // namespace

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return fill(to, value, 1, count, nullptr);
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return fill(to, value, 2, count, nullptr);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  return fill(to, value, 4, count, nullptr);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill(to, value, 1, count, stream);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill(to, value, 2, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return fill(to, value, 4, count, stream);
}

}  // namespace vgpu::driver
