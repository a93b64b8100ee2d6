// Copies of boxes and batches: one server's alone. Between servers they are refused.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/default_stream.h"
#include "driver_functions.h"
#include "router/place.h"

namespace vgpu::driver {

using router::by_current;
using router::by_stream;
using router::is_foreign;
using router::memory_at;
using router::Place;
using router::Server;

namespace {

constexpr const char* kBoxes = "a copy of a box, or a batch of copies";

// What an end needs: a server, or none for host memory.
Server* server_of(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array) {
  if (type == CU_MEMORYTYPE_ARRAY) return router::owner_of(array);
  const uint64_t address = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(host) : device;
  const router::Memory memory = memory_at(address);
  return memory.on_device() ? memory.server : nullptr;
}

// The one server that both ends leave; `otherwise` when neither is a device's.
Place one_of(Server* to, Server* from, const Place& otherwise) {
  if (to != nullptr && from != nullptr && to != from) return {router::refuse_across(kBoxes)};
  Server* server = to != nullptr ? to : from;
  return server != nullptr ? Place{CUDA_SUCCESS, server} : otherwise;
}

template <typename Box>
Place place_of(const Box* box, const Place& otherwise) {
  if (otherwise.result != CUDA_SUCCESS || box == nullptr) return otherwise;
  return one_of(server_of(box->dstMemoryType, box->dstHost, box->dstDevice, box->dstArray),
                server_of(box->srcMemoryType, box->srcHost, box->srcDevice, box->srcArray),
                otherwise);
}

template <typename Box>
Place here(const Box* box) {
  const Place at = place_of(box, by_current());
  return at.result == CUDA_SUCCESS ? router::there(at.server) : at;
}

template <typename Box>
Place in_stream(const Box* box, CUstream stream) {
  const Place mine = by_stream(stream);
  const Place at = place_of(box, mine);
  if (at.result == CUDA_SUCCESS && at.server != mine.server) return {router::refuse_across(kBoxes)};
  return at;
}

Place batch(const CUdeviceptr* to, const CUdeviceptr* from, size_t count, CUstream stream) {
  const Place at = by_stream(stream);
  if (at.result != CUDA_SUCCESS || to == nullptr || from == nullptr) return at;
  for (size_t i = 0; i < count; ++i) {
    if (is_foreign(at, to[i]) || is_foreign(at, from[i])) return {router::refuse_across(kBoxes)};
  }
  return at;
}

Place batch(const CUDA_MEMCPY3D_BATCH_OP* boxes, size_t count, CUstream stream) {
  const Place at = by_stream(stream);
  if (at.result != CUDA_SUCCESS || boxes == nullptr) return at;
  for (size_t i = 0; i < count; ++i) {
    for (const CUmemcpy3DOperand* end : {&boxes[i].src, &boxes[i].dst}) {
      if (end->type == CU_MEMCPY_OPERAND_TYPE_POINTER && is_foreign(at, end->op.ptr.ptr))
        return {router::refuse_across(kBoxes)};
    }
  }
  return at;
}

}  // namespace

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* box) {
  const Place at = here(box);
  if (at.result != CUDA_SUCCESS) return at.result;
  return (per_thread_default ? at->cuMemcpy2D_v2_ptds : at->cuMemcpy2D_v2)(box);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* box) {
  const Place at = here(box);
  if (at.result != CUDA_SUCCESS) return at.result;
  return (per_thread_default ? at->cuMemcpy2DUnaligned_v2_ptds : at->cuMemcpy2DUnaligned_v2)(box);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* box) {
  const Place at = here(box);
  if (at.result != CUDA_SUCCESS) return at.result;
  return (per_thread_default ? at->cuMemcpy3D_v2_ptds : at->cuMemcpy3D_v2)(box);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* box, CUstream stream) {
  const Place at = in_stream(box, stream);
  return at.result != CUDA_SUCCESS ? at.result : at->cuMemcpy2DAsync_v2(box, stream);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* box, CUstream stream) {
  const Place at = in_stream(box, stream);
  return at.result != CUDA_SUCCESS ? at.result : at->cuMemcpy3DAsync_v2(box, stream);
}

CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                            CUmemcpyAttributes* attributes, size_t* indices, size_t kinds,
                            size_t* failed, CUstream stream) {
  const Place at = batch(to, from, count, stream);
  if (at.result != CUDA_SUCCESS) return at.result;
  return at->cuMemcpyBatchAsync(to, from, bytes, count, attributes, indices, kinds, failed, stream);
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                               CUmemcpyAttributes* attributes, size_t* indices, size_t kinds,
                               CUstream stream) {
  const Place at = batch(to, from, count, stream);
  if (at.result != CUDA_SUCCESS) return at.result;
  return at->cuMemcpyBatchAsync_v2(to, from, bytes, count, attributes, indices, kinds, stream);
}

CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* boxes, size_t* failed,
                              unsigned long long flags, CUstream stream) {
  const Place at = batch(boxes, count, stream);
  if (at.result != CUDA_SUCCESS) return at.result;
  return at->cuMemcpy3DBatchAsync(count, boxes, failed, flags, stream);
}

CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP* boxes,
                                 unsigned long long flags, CUstream stream) {
  const Place at = batch(boxes, count, stream);
  if (at.result != CUDA_SUCCESS) return at.result;
  return at->cuMemcpy3DBatchAsync_v2(count, boxes, flags, stream);
}

}  // namespace vgpu::driver
