// Linear copies: cuMemcpy*.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>

#include "api/default_stream.h"
#include "driver_functions.h"
#include "shim/staging.h"
#include "shim/stream_table.h"

namespace vgpu::driver {

using shim::Allocation;
using shim::Context;
using shim::enter;
using shim::find_stream;
using shim::HostBlock;
using shim::Session;
using shim::stage_from_device;
using shim::stage_to_device;
using shim::StreamRef;
using shim::synchronize_stream;

namespace {

enum class Timing : uint8_t { kSynchronous, kAsynchronous };

struct Copy {
  Session* session = nullptr;
  Context* context = nullptr;
  StreamRef stream;
  Timing timing = Timing::kSynchronous;
};

CUresult begin(Copy* copy, CUstream stream, Timing timing) {
  copy->timing = timing;
  if (CUresult r = enter(&copy->session, &copy->context); r != CUDA_SUCCESS) return r;
  if (stream == nullptr) stream = default_stream();
  return find_stream(*copy->session, copy->context, stream, &copy->stream);
}

// Whether [address, address + bytes) is the device's to read and write.
bool on_device(Session& session, uint64_t address, uint64_t bytes) {
  Allocation allocation;
  if (!session.memory().find(address, &allocation)) return false;
  return bytes <= allocation.bytes - (address - allocation.address);
}

bool begins_on_device(Session& session, uint64_t address) {
  Allocation allocation;
  return session.memory().find(address, &allocation);
}

// Whether the worker has this host memory at the same address.
bool in_place(Session& session, uint64_t address, uint64_t bytes) {
  HostBlock block;
  if (!session.host_memory().find(address, &block) || !block.in_place) return false;
  return bytes <= block.bytes - (address - block.address);
}

// A synchronous copy to the device is done when it returns, also for streams that do not order with
// it. Where there are none, order in the channel is enough.
bool must_wait(Copy& copy) {
  return copy.timing == Timing::kSynchronous &&
         (copy.context->unordered_streams.load(std::memory_order_relaxed) != 0 ||
          copy.session->contexts().active_count() > 1);
}

template <typename Args>
CUresult post(Copy& copy, Op op, uint64_t to, uint64_t from, uint64_t bytes) {
  Args args;
  args.destination = to;
  args.source = from;
  args.bytes = bytes;
  args.stream = copy.stream.id;
  return copy.session->post(copy.context, op, args, {}, &copy.stream) != 0 ? CUDA_SUCCESS
                                                                           : copy.session->lost();
}

CUresult to_device(Copy& copy, uint64_t to, const void* from, uint64_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (from == nullptr || !on_device(*copy.session, to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  CUresult result;
  const auto source = reinterpret_cast<uint64_t>(from);
  if (copy.timing == Timing::kAsynchronous && in_place(*copy.session, source, bytes)) {
    return post<wire::CopyToDeviceInPlaceArgs>(copy, Op::kCopyToDeviceInPlace, to, source, bytes);
  }
  result = stage_to_device(*copy.session, copy.context, to, from, bytes, copy.stream);
  if (result == CUDA_SUCCESS && must_wait(copy)) {
    result = synchronize_stream(*copy.session, copy.context, copy.stream);
  }
  return result;
}

CUresult from_device(Copy& copy, void* to, uint64_t from, uint64_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (to == nullptr || !on_device(*copy.session, from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const auto target = reinterpret_cast<uint64_t>(to);
  if (in_place(*copy.session, target, bytes)) {
    const CUresult result = post<wire::CopyFromDeviceInPlaceArgs>(copy, Op::kCopyFromDeviceInPlace,
                                                                  target, from, bytes);
    if (result != CUDA_SUCCESS || copy.timing == Timing::kAsynchronous) return result;
    return synchronize_stream(*copy.session, copy.context, copy.stream);
  }
  return stage_from_device(*copy.session, copy.context, to, from, bytes, copy.stream);
}

CUresult on_the_device(Copy& copy, uint64_t to, uint64_t from, uint64_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (!on_device(*copy.session, to, bytes) || !on_device(*copy.session, from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = post<wire::CopyDeviceArgs>(copy, Op::kCopyDevice, to, from, bytes);
  return result == CUDA_SUCCESS && must_wait(copy)
             ? synchronize_stream(*copy.session, copy.context, copy.stream)
             : result;
}

// Between two places in host memory, in the stream's order.
CUresult on_the_host(Copy& copy, uint64_t to, uint64_t from, uint64_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (to == 0 || from == 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = synchronize_stream(*copy.session, copy.context, copy.stream);
  if (result == CUDA_SUCCESS)
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return result;
}

CUresult by_address(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
                    Timing timing) {
  Copy copy;
  if (CUresult r = begin(&copy, stream, timing); r != CUDA_SUCCESS) return r;
  const bool to_there = begins_on_device(*copy.session, to),
             from_there = begins_on_device(*copy.session, from);
  if (to_there && from_there) return on_the_device(copy, to, from, bytes);
  if (to_there) return to_device(copy, to, reinterpret_cast<const void*>(from), bytes);
  if (from_there) return from_device(copy, reinterpret_cast<void*>(to), from, bytes);
  return on_the_host(copy, to, from, bytes);
}

}  // namespace

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  Copy copy;
  if (CUresult r = begin(&copy, nullptr, Timing::kSynchronous); r != CUDA_SUCCESS) return r;
  return to_device(copy, to, from, bytes);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  Copy copy;
  if (CUresult r = begin(&copy, stream, Timing::kAsynchronous); r != CUDA_SUCCESS) return r;
  return to_device(copy, to, from, bytes);
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  Copy copy;
  if (CUresult r = begin(&copy, nullptr, Timing::kSynchronous); r != CUDA_SUCCESS) return r;
  return from_device(copy, to, from, bytes);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  Copy copy;
  if (CUresult r = begin(&copy, stream, Timing::kAsynchronous); r != CUDA_SUCCESS) return r;
  return from_device(copy, to, from, bytes);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  Copy copy;
  if (CUresult r = begin(&copy, nullptr, Timing::kSynchronous); r != CUDA_SUCCESS) return r;
  return on_the_device(copy, to, from, bytes);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  Copy copy;
  if (CUresult r = begin(&copy, stream, Timing::kAsynchronous); r != CUDA_SUCCESS) return r;
  return on_the_device(copy, to, from, bytes);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return by_address(to, from, bytes, nullptr, Timing::kSynchronous);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return by_address(to, from, bytes, stream, Timing::kAsynchronous);
}

}  // namespace vgpu::driver
