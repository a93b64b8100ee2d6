// Linear copies: cuMemcpy*.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>

#include "api/calls/hooks.h"
#include "driver_functions.h"
#include "shim/capture_hooks.h"
#include "shim/copy.h"
#include "shim/staging.h"

namespace vgpu::driver {

using shim::Allocation;
using shim::Copy;
using shim::HostBlock;
using shim::must_wait;
using shim::Session;
using shim::stage_from_device;
using shim::stage_to_device;
using shim::synchronize_stream;
using shim::Timing;
using shim::wait_if;

namespace {

// What a range of addresses is. kBeyond: it begins in memory that we know and ends outside.
enum class Side : uint8_t { kDevice, kInPlace, kRegistered, kPageable, kBeyond };

Side host_side(Session& session, uint64_t address, uint64_t bytes) {
  HostBlock block;
  // Reserved addresses that nothing, or nothing accessible, is mapped at are nobody's host memory.
  if (session.virtual_memory().inside(address)) return Side::kBeyond;
  if (!session.host_memory().find(address, &block)) return Side::kPageable;
  if (bytes > block.bytes - (address - block.address)) return Side::kBeyond;
  return block.in_place ? Side::kInPlace : Side::kRegistered;
}

Side side_of(Session& session, uint64_t address, uint64_t bytes) {
  Allocation allocation;
  if (!session.memory().find(address, &allocation)) return host_side(session, address, bytes);
  const bool inside = bytes <= allocation.bytes - (address - allocation.address);
  return inside ? Side::kDevice : Side::kBeyond;
}

bool is_known(Side side) { return side < Side::kPageable; }
// Memory whose bytes are read by the calling thread.
bool is_read_here(Side side) { return side == Side::kRegistered || side == Side::kPageable; }

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

CUresult to_device(Copy& copy, uint64_t to, uint64_t from, uint64_t bytes, Side source) {
  if (copy.timing == Timing::kAsynchronous && source == Side::kInPlace) {
    return post<wire::CopyToDeviceInPlaceArgs>(copy, Op::kCopyToDeviceInPlace, to, from, bytes);
  }
  if (source != Side::kPageable) {
    if (CUresult r = wait_for_writers(copy); r != CUDA_SUCCESS) return r;
  }
  const CUresult result = stage_to_device(*copy.session, copy.context, to,
                                          reinterpret_cast<const void*>(from), bytes, copy.stream);
  return wait_if(copy, must_wait(copy), result);
}

CUresult from_device(Copy& copy, uint64_t to, uint64_t from, uint64_t bytes, Side target) {
  if (target == Side::kInPlace) {
    const CUresult result =
        post<wire::CopyFromDeviceInPlaceArgs>(copy, Op::kCopyFromDeviceInPlace, to, from, bytes);
    return wait_if(copy, true, result);
  }
  const CUresult result = stage_from_device(*copy.session, copy.context,
                                            reinterpret_cast<void*>(to), from, bytes, copy.stream);
  return copy.timing == Timing::kSynchronous ? copy.session->show_output(result) : result;
}

CUresult on_the_device(Copy& copy, uint64_t to, uint64_t from, uint64_t bytes) {
  const CUresult result = post<wire::CopyDeviceArgs>(copy, Op::kCopyDevice, to, from, bytes);
  return wait_if(copy, must_wait(copy), result);
}

// Between two places in host memory, in the stream's order.
CUresult on_the_host(Copy& copy, uint64_t to, uint64_t from, uint64_t bytes) {
  const CUresult result = synchronize_stream(*copy.session, copy.context, copy.stream);
  if (result == CUDA_SUCCESS)
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return result;
}

// What capture makes of a copy.
std::optional<CUresult> captured(const Copy& copy, uint64_t to, CUmemorytype to_type, uint64_t from,
                                 CUmemorytype from_type, uint64_t bytes) {
  if (copy.timing == Timing::kSynchronous) return shim::refuse_waiting(*copy.context, copy.stream);
  return graph::capture_copy(shim::key_of(*copy.context, copy.stream),
                             graph::linear_copy(to, to_type, from, from_type, bytes));
}

// `target` and `source`: what the ends are.
CUresult between(Copy& copy, uint64_t to, uint64_t from, uint64_t bytes, Side target, Side source) {
  if (to == 0 || from == 0 || target == Side::kBeyond || source == Side::kBeyond)
    return CUDA_ERROR_INVALID_VALUE;
  if (target == Side::kDevice && source == Side::kDevice)
    return on_the_device(copy, to, from, bytes);
  if (target == Side::kDevice) return to_device(copy, to, from, bytes, source);
  if (source == Side::kDevice) return from_device(copy, to, from, bytes, target);
  return on_the_host(copy, to, from, bytes);
}

CUresult host_to_device(uint64_t to, const void* from, uint64_t bytes, CUstream stream,
                        Timing timing) {
  Copy copy;
  if (CUresult r = begin(&copy, stream, timing); r != CUDA_SUCCESS) return r;
  const auto source = reinterpret_cast<uint64_t>(from);
  if (graph::watching()) [[unlikely]] {
    const auto taken = captured(copy, to, CU_MEMORYTYPE_DEVICE, source, CU_MEMORYTYPE_HOST, bytes);
    if (taken.has_value()) return *taken;
  }
  if (bytes == 0) return CUDA_SUCCESS;
  const Side target = side_of(*copy.session, to, bytes);
  if (!is_known(target)) return CUDA_ERROR_INVALID_VALUE;
  return between(copy, to, source, bytes, target, host_side(*copy.session, source, bytes));
}

CUresult device_to_host(void* to, uint64_t from, uint64_t bytes, CUstream stream, Timing timing) {
  Copy copy;
  if (CUresult r = begin(&copy, stream, timing); r != CUDA_SUCCESS) return r;
  const auto target = reinterpret_cast<uint64_t>(to);
  if (graph::watching()) [[unlikely]] {
    const auto taken =
        captured(copy, target, CU_MEMORYTYPE_HOST, from, CU_MEMORYTYPE_DEVICE, bytes);
    if (taken.has_value()) return *taken;
  }
  if (bytes == 0) return CUDA_SUCCESS;
  const Side source = side_of(*copy.session, from, bytes);
  if (!is_known(source)) return CUDA_ERROR_INVALID_VALUE;
  return between(copy, target, from, bytes, host_side(*copy.session, target, bytes), source);
}

// Wherever the ends are; `known`: both must be memory that the driver knows.
CUresult by_address(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, Timing timing,
                    bool known) {
  Copy copy;
  if (CUresult r = begin(&copy, stream, timing); r != CUDA_SUCCESS) return r;
  if (graph::watching()) [[unlikely]] {
    const CUmemorytype type = known ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
    if (const auto taken = captured(copy, to, type, from, type, bytes)) return *taken;
  }
  if (bytes == 0) return CUDA_SUCCESS;
  const Side target = side_of(*copy.session, to, bytes);
  const Side source = side_of(*copy.session, from, bytes);
  if (known && (!is_known(target) || !is_known(source))) return CUDA_ERROR_INVALID_VALUE;
  return between(copy, to, from, bytes, target, source);
}

// What the source is read by, and when, follows from what it is. `access` may ask for more: to read
// in the stream's order what this thread reads, or to have read all when the call returns.
CUresult between(Copy& copy, uint64_t to, uint64_t from, uint64_t bytes,
                 calls::SourceAccess* access) {
  const Side target = side_of(*copy.session, to, bytes);
  const Side source = side_of(*copy.session, from, bytes);
  const bool during = access->order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  if (access->order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && is_read_here(source) &&
      !access->caught_up) {
    const CUresult r = synchronize_stream(*copy.session, copy.context, copy.stream);
    if (r != CUDA_SUCCESS) return r;
    access->caught_up = true;
  }
  if (during && target == Side::kDevice && source == Side::kInPlace) {
    return stage_to_device(*copy.session, copy.context, to, reinterpret_cast<const void*>(from),
                           bytes, copy.stream);
  }
  if (during && source == Side::kDevice) access->wait_at_end = true;
  return between(copy, to, from, bytes, target, source);
}

}  // namespace

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return host_to_device(to, from, bytes, nullptr, Timing::kSynchronous);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return host_to_device(to, from, bytes, stream, Timing::kAsynchronous);
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return device_to_host(to, from, bytes, nullptr, Timing::kSynchronous);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return device_to_host(to, from, bytes, stream, Timing::kAsynchronous);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return by_address(to, from, bytes, nullptr, Timing::kSynchronous, true);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return by_address(to, from, bytes, stream, Timing::kAsynchronous, true);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return by_address(to, from, bytes, nullptr, Timing::kSynchronous, false);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return by_address(to, from, bytes, stream, Timing::kAsynchronous, false);
}

}  // namespace vgpu::driver

namespace vgpu::calls {

CUresult copy_in_batch(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
                       SourceAccess* access) {
  shim::Copy copy;
  const CUresult r = shim::begin(&copy, stream, shim::Timing::kAsynchronous);
  return r == CUDA_SUCCESS ? driver::between(copy, to, from, bytes, access) : r;
}

}  // namespace vgpu::calls
