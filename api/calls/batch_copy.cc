// Batches of copies: all are checked before the first is submitted, so a batch is done as a whole
// or not at all. They follow each other in their stream, which is one of the orders that they may
// have.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstdint>

#include "api/calls/batch.h"
#include "api/calls/hooks.h"
#include "api/geometry/array_shape.h"
#include "driver_functions.h"

namespace vgpu::driver {
namespace {

using calls::SourceAccess;

constexpr unsigned kCopyFlags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;  // a hint

bool access_valid(CUmemcpySrcAccessOrder order, unsigned flags) {
  return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
         (flags & ~kCopyFlags) == 0;
}

// Runs check(i) for all, then submit(i, access) for all. *failed: the copy that an error is of.
template <typename Check, typename Submit>
CUresult run(size_t count, CUstream stream, size_t* failed, Check check, Submit submit) {
  for (*failed = 0; *failed < count; ++*failed) {
    if (const CUresult r = check(*failed); r != CUDA_SUCCESS) return r;
  }
  SourceAccess access;
  for (*failed = 0; *failed < count; ++*failed) {
    if (const CUresult r = submit(*failed, &access); r != CUDA_SUCCESS) return r;
  }
  *failed = SIZE_MAX;
  return access.wait_at_end ? driver::cuStreamSynchronize(stream) : CUDA_SUCCESS;
}

CUresult check_copy(const CUDA_MEMCPY3D& box) {
  CUcontext current = nullptr;
  const CUresult r = graph::backend().enter(&current);
  return r == CUDA_SUCCESS ? graph::backend().check_copy({box, current}) : r;
}

// --- between addresses ---------------------------------------------------------------------------

struct LinearBatch {
  const CUdeviceptr *to, *from;
  const size_t* bytes;
  size_t count;
  const CUmemcpyAttributes* attributes;
  const size_t* starts;
  size_t attribute_count;
};

CUresult copy_linear(const LinearBatch& batch, size_t* failed, CUstream stream) {
  if (const CUresult r = calls::begin_batch(stream); r != CUDA_SUCCESS) return r;
  if (batch.to == nullptr || batch.from == nullptr || batch.bytes == nullptr ||
      batch.attributes == nullptr ||
      !calls::cuts_batch(batch.starts, batch.attribute_count, batch.count)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  calls::RunOf checked(batch.starts, batch.attribute_count);
  calls::RunOf submitted(batch.starts, batch.attribute_count);
  return run(
      batch.count, stream, failed,
      [&](size_t i) {
        const CUmemcpyAttributes& attributes = batch.attributes[checked.at(i)];
        if (!access_valid(attributes.srcAccessOrder, attributes.flags) || batch.bytes[i] == 0)
          return CUDA_ERROR_INVALID_VALUE;
        return check_copy(graph::linear_copy(batch.to[i], CU_MEMORYTYPE_UNIFIED, batch.from[i],
                                             CU_MEMORYTYPE_UNIFIED, batch.bytes[i]));
      },
      [&](size_t i, SourceAccess* access) {
        access->order = batch.attributes[submitted.at(i)].srcAccessOrder;
        return calls::copy_in_batch(batch.to[i], batch.from[i], batch.bytes[i], stream, access);
      });
}

// --- boxes ---------------------------------------------------------------------------------------

// Bytes of an operand's element; 1 for memory, whose elements are what the other end's are.
CUresult element_bytes(const CUmemcpy3DOperand& operand, uint64_t* bytes) {
  *bytes = 1;
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_POINTER) return CUDA_SUCCESS;
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_ARRAY) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  const CUresult r = driver::cuArray3DGetDescriptor_v2(&shape, operand.op.array.array);
  *bytes = uint64_t{channel_bytes(shape.Format)} * shape.NumChannels;
  return r;
}

// One end of a box in the terms of cuMemcpy3D: bytes, and a pitch.
struct End {
  CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
  CUdeviceptr address = 0;
  CUarray array = nullptr;
  size_t pitch = 0, height = 0, x = 0, y = 0, z = 0;
};

// Rows and layers without gaps where the operand does not say how long they are.
CUresult read_end(const CUmemcpy3DOperand& operand, const CUextent3D& extent, uint64_t element,
                  End* end) {
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    const CUoffset3D& offset = operand.op.array.offset;
    end->type = CU_MEMORYTYPE_ARRAY;
    end->array = operand.op.array.array;
    end->y = offset.y;
    end->z = offset.z;
    return __builtin_mul_overflow(offset.x, element, &end->x) ? CUDA_ERROR_INVALID_VALUE
                                                              : CUDA_SUCCESS;
  }
  const auto& memory = operand.op.ptr;
  end->address = memory.ptr;
  end->height = memory.layerHeight;
  const bool fits = (memory.rowLength == 0 || memory.rowLength >= extent.width) &&
                    (memory.layerHeight == 0 || memory.layerHeight >= extent.height) &&
                    !__builtin_mul_overflow(memory.rowLength, element, &end->pitch);
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult to_box(const CUDA_MEMCPY3D_BATCH_OP& copy, CUDA_MEMCPY3D* box) {
  uint64_t to_element = 1, from_element = 1;
  if (const CUresult r = element_bytes(copy.dst, &to_element); r != CUDA_SUCCESS) return r;
  if (const CUresult r = element_bytes(copy.src, &from_element); r != CUDA_SUCCESS) return r;
  const bool arrays = copy.src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY &&
                      copy.dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY;
  if (arrays && to_element != from_element) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t element = to_element > from_element ? to_element : from_element;
  End to, from;
  if (const CUresult r = read_end(copy.dst, copy.extent, element, &to); r != CUDA_SUCCESS) return r;
  if (const CUresult r = read_end(copy.src, copy.extent, element, &from); r != CUDA_SUCCESS)
    return r;
  *box = {};
  box->dstMemoryType = to.type;
  box->dstDevice = to.address;
  box->dstArray = to.array;
  box->dstPitch = to.pitch;
  box->dstHeight = to.height;
  box->dstXInBytes = to.x;
  box->dstY = to.y;
  box->dstZ = to.z;
  box->srcMemoryType = from.type;
  box->srcDevice = from.address;
  box->srcArray = from.array;
  box->srcPitch = from.pitch;
  box->srcHeight = from.height;
  box->srcXInBytes = from.x;
  box->srcY = from.y;
  box->srcZ = from.z;
  box->Height = copy.extent.height;
  box->Depth = copy.extent.depth;
  return __builtin_mul_overflow(copy.extent.width, element, &box->WidthInBytes)
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

CUresult copy_boxes(const CUDA_MEMCPY3D_BATCH_OP* copies, size_t count, size_t* failed,
                    unsigned long long flags, CUstream stream) {  // NOLINT(google-runtime-int)
  if (const CUresult r = calls::begin_batch(stream); r != CUDA_SUCCESS) return r;
  if (copies == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return run(
      count, stream, failed,
      [&](size_t i) {
        const CUDA_MEMCPY3D_BATCH_OP& copy = copies[i];
        const CUextent3D& extent = copy.extent;
        const bool empty = extent.width == 0 || extent.height == 0 || extent.depth == 0;
        if (empty || !access_valid(copy.srcAccessOrder, copy.flags))
          return CUDA_ERROR_INVALID_VALUE;
        CUDA_MEMCPY3D box;
        const CUresult r = to_box(copy, &box);
        return r == CUDA_SUCCESS ? check_copy(box) : r;
      },
      [&](size_t i, SourceAccess* access) {
        CUDA_MEMCPY3D box;
        if (const CUresult r = to_box(copies[i], &box); r != CUDA_SUCCESS) return r;
        access->order = copies[i].srcAccessOrder;
        return calls::copy_in_batch(box, stream, access);
      });
}

// The copy that an error is of, for callers that want to know: SIZE_MAX when it is of none.
class Failure {
 public:
  explicit Failure(size_t* out) : out_(out) {}
  ~Failure() {
    if (out_ != nullptr) *out_ = index;
  }
  Failure(const Failure&) = delete;
  Failure& operator=(const Failure&) = delete;
  size_t index = SIZE_MAX;

 private:
  size_t* const out_;
};

}  // namespace

CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                            CUmemcpyAttributes* attributes, size_t* starts, size_t attribute_count,
                            size_t* failed, CUstream stream) {
  Failure failure(failed);
  return copy_linear({to, from, bytes, count, attributes, starts, attribute_count}, &failure.index,
                     stream);
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                               CUmemcpyAttributes* attributes, size_t* starts,
                               size_t attribute_count, CUstream stream) {
  return driver::cuMemcpyBatchAsync(to, from, bytes, count, attributes, starts, attribute_count,
                                    nullptr, stream);
}

CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* copies, size_t* failed,
                              unsigned long long flags, CUstream stream) {
  Failure failure(failed);
  return copy_boxes(copies, count, &failure.index, flags, stream);
}

CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP* copies,
                                 unsigned long long flags, CUstream stream) {
  return driver::cuMemcpy3DBatchAsync(count, copies, nullptr, flags, stream);
}

}  // namespace vgpu::driver
