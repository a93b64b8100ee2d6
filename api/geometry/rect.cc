// Two- and three-dimensional copies in one form.
// SPDX-License-Identifier: Apache-2.0
#include "api/geometry/rect.h"

namespace vgpu {
namespace {

constexpr uint64_t kExtentMax = uint64_t{1} << 47;  // no address space holds more

// Adds a * b to *sum; false when that overflows.
bool advance(uint64_t a, uint64_t b, uint64_t* sum) {
  uint64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*sum, product, sum);
}

// What one end of a descriptor says, whatever the descriptor.
struct Described {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  uint64_t pitch, rows, x, y, z;
};

// Without a pitch rows follow each other; without a height slices do.
CUresult make_side(const Described& d, uint64_t pitch_max, const RectCopy& rect, RectSide* side) {
  side->type = d.type;
  side->x = d.x;
  side->y = d.y;
  side->z = d.z;
  if (d.x > kExtentMax || d.y > kExtentMax || d.z > kExtentMax) return CUDA_ERROR_INVALID_VALUE;
  switch (d.type) {
    case CU_MEMORYTYPE_ARRAY:
      side->array = d.array;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_HOST:
      side->address = reinterpret_cast<uint64_t>(d.host);
      break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
      side->address = d.device;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (rect.empty()) return CUDA_SUCCESS;
  if (side->address == 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t row = d.x + rect.width;
  if (d.pitch > pitch_max || (d.pitch != 0 && d.pitch < row)) return CUDA_ERROR_INVALID_VALUE;
  side->pitch = d.pitch != 0 ? d.pitch : row;
  const uint64_t rows = d.rows != 0 ? d.rows : d.y + rect.height;
  if (rect.depth > 1 && rows < d.y + rect.height) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_mul_overflow(side->pitch, rows, &side->slice)) return CUDA_ERROR_INVALID_VALUE;
  uint64_t last = 0;
  if (!advance(d.z, side->slice, &side->address) || !advance(d.y, side->pitch, &side->address) ||
      !advance(d.x, 1, &side->address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  last = side->address;
  if (!advance(rect.depth - 1, side->slice, &last) ||
      !advance(rect.height - 1, side->pitch, &last) || !advance(rect.width, 1, &last)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult make_rect(const Described& to, const Described& from, uint64_t pitch_max, RectCopy* rect) {
  if (rect->width > kExtentMax || rect->height > kExtentMax || rect->depth > kExtentMax)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t rows = 0, bytes = 0;
  if (!advance(rect->height, rect->depth, &rows) || !advance(rect->width, rows, &bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = make_side(to, pitch_max, *rect, &rect->to); r != CUDA_SUCCESS) return r;
  return make_side(from, pitch_max, *rect, &rect->from);
}

}  // namespace

CUresult to_rect(const CUDA_MEMCPY2D* copy, uint64_t pitch_max, RectCopy* rect) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  rect->width = copy->WidthInBytes;
  rect->height = copy->Height;
  rect->depth = 1;
  return make_rect({copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstArray,
                    copy->dstPitch, 0, copy->dstXInBytes, copy->dstY, 0},
                   {copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcArray,
                    copy->srcPitch, 0, copy->srcXInBytes, copy->srcY, 0},
                   pitch_max, rect);
}

CUresult to_rect(const CUDA_MEMCPY3D* copy, uint64_t pitch_max, RectCopy* rect) {
  if (copy == nullptr || copy->reserved0 != nullptr || copy->reserved1 != nullptr ||
      copy->srcLOD != 0 || copy->dstLOD != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  rect->width = copy->WidthInBytes;
  rect->height = copy->Height;
  rect->depth = copy->Depth;
  return make_rect({copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstArray,
                    copy->dstPitch, copy->dstHeight, copy->dstXInBytes, copy->dstY, copy->dstZ},
                   {copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcArray,
                    copy->srcPitch, copy->srcHeight, copy->srcXInBytes, copy->srcY, copy->srcZ},
                   pitch_max, rect);
}

RectSide array_side(CUarray array, uint64_t offset) {
  RectSide side;
  side.type = CU_MEMORYTYPE_ARRAY;
  side.array = array;
  side.x = offset;
  return side;
}

RectSide memory_side(CUmemorytype type, uint64_t address, uint64_t bytes) {
  RectSide side;
  side.type = type;
  side.address = address;
  side.pitch = bytes;
  side.slice = bytes;
  return side;
}

CUresult check_in_array(const RectCopy& rect, const RectSide& side, const ArrayShape& shape) {
  const LevelExtent extent = shape.extent(0);
  const uint64_t texel = shape.texel_bytes();
  const auto within = [](uint64_t from, uint64_t count, uint64_t all) {
    return from <= all && count <= all - from;
  };
  const bool good = side.x % texel == 0 && rect.width % texel == 0 &&
                    within(side.x, rect.width, extent.width * texel) &&
                    within(side.y, rect.height, extent.height) &&
                    within(side.z, rect.depth, extent.slices);
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace vgpu
