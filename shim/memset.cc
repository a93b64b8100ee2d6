// Fills: cuMemset*.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>

#include "api/default_stream.h"
#include "driver_functions.h"
#include "shim/stream_table.h"

namespace vgpu::driver {

using shim::Allocation;
using shim::Context;
using shim::enter;
using shim::find_stream;
using shim::HostBlock;
using shim::Session;
using shim::StreamRef;
using shim::synchronize_stream;

namespace {

// Registered memory that the device does not reach: filled here, in the stream's order.
CUresult fill_here(Session& session, Context* context, const StreamRef& stream, uint64_t to,
                   uint32_t value, uint32_t width, uint64_t count) {
  if (CUresult r = synchronize_stream(session, context, stream); r != CUDA_SUCCESS) return r;
  for (uint64_t i = 0; i < count; ++i)
    std::memcpy(reinterpret_cast<void*>(to + i * width), &value, width);
  return CUDA_SUCCESS;
}

CUresult fill(uint64_t to, uint32_t value, uint32_t width, uint64_t count, CUstream handle) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (handle == nullptr) handle = default_stream();
  StreamRef stream;
  if (CUresult r = find_stream(*session, context, handle, &stream); r != CUDA_SUCCESS) return r;
  if (count == 0) return CUDA_SUCCESS;
  if (to % width != 0) return CUDA_ERROR_INVALID_VALUE;
  Allocation allocation;
  HostBlock block;
  if (session->memory().find(to, &allocation)) {
    if (count > (allocation.bytes - (to - allocation.address)) / width)
      return CUDA_ERROR_INVALID_VALUE;
  } else if (session->host_memory().find(to, &block)) {
    if (count > (block.bytes - (to - block.address)) / width) return CUDA_ERROR_INVALID_VALUE;
    if (!block.in_place) return fill_here(*session, context, stream, to, value, width, count);
  } else {
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
