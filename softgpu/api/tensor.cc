// Tensor maps: what the host asks for is checked and written down, for kernels to read.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>

#include "base/log.h"
#include "driver_functions.h"
#include "softgpu/api/driver.h"
#include "softgpu/exec/tensor_map.h"

namespace vgpu::driver {
namespace {

using softgpu::TensorMap;

constexpr uintptr_t kMapAlignment = 64;
constexpr uint64_t kSizeMax = 1ull << 32, kStrideEnd = 1ull << 40;
constexpr uint32_t kStepMax = 8, kPixelRankMin = 3;

bool is_float(CUtensorMapDataType type) {
  return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

// The longest row of a box that a swizzle can take, in bytes; 0 = any.
uint32_t row_bytes_max(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE:
      return 0;
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return 64;
    default:
      return 128;
  }
}

bool aligned(const void* pointer, uintptr_t to) {
  return reinterpret_cast<uintptr_t>(pointer) % to == 0;
}

// What holds whatever the tensor's shape is.
CUresult check_modes(CUtensorMapDataType type, CUtensorMapInterleave interleave,
                     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                     CUtensorMapFloatOOBfill fill) {
  if (type < 0 || type > CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B || interleave < 0 ||
      interleave > CU_TENSOR_MAP_INTERLEAVE_32B || swizzle < 0 ||
      swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B || promotion < 0 ||
      promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B || fill < 0 ||
      fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
    return CUDA_ERROR_INVALID_VALUE;
  if (fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && !is_float(type)) return CUDA_ERROR_INVALID_VALUE;
  if (interleave == CU_TENSOR_MAP_INTERLEAVE_32B && swizzle != CU_TENSOR_MAP_SWIZZLE_32B)
    return CUDA_ERROR_INVALID_VALUE;
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || softgpu::tensor_element_bytes(type) == 0) {
    log_once("tensor map", LogLevel::kWarn,
             "tensor maps: interleaved layouts and types of less than a byte are not "
             "supported");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

// What both kinds of maps have in common: `map` gets the address, the modes and each dimension's
// numbers. `sizes`, `strides` and `steps` may be anything.
CUresult begin_map(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
                   const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* steps,
                   CUtensorMapSwizzle swizzle, CUtensorMapFloatOOBfill fill, TensorMap* map) {
  if (out == nullptr || !aligned(out, kMapAlignment) || rank == 0 ||
      rank > softgpu::kTensorRankMax || address == nullptr || !aligned(address, 16) ||
      sizes == nullptr || steps == nullptr || (strides == nullptr && rank > 1))
    return CUDA_ERROR_INVALID_VALUE;
  map->address = reinterpret_cast<uint64_t>(address);
  map->magic = softgpu::kTensorMapMagic;
  map->type = static_cast<uint8_t>(type);
  map->rank = static_cast<uint8_t>(rank);
  map->swizzle = static_cast<uint8_t>(swizzle);
  map->fill = static_cast<uint8_t>(fill);
  for (uint32_t d = 0; d < rank; ++d) {
    if (sizes[d] == 0 || sizes[d] > kSizeMax || steps[d] == 0 || steps[d] > kStepMax)
      return CUDA_ERROR_INVALID_VALUE;
    map->last[d] = static_cast<uint32_t>(sizes[d] - 1);
    map->steps[d] = static_cast<uint8_t>(steps[d]);
    if (d == 0) continue;
    const uint64_t stride = strides[d - 1];
    if (stride % 16 != 0 || stride >= kStrideEnd) return CUDA_ERROR_INVALID_VALUE;
    map->strides[d - 1] = stride;
  }
  return CUDA_SUCCESS;
}

// The map is written when its rows can be copied as it says.
CUresult end_map(const TensorMap& map, CUtensorMap* out) {
  const uint32_t row = map.box[0] * map.element_bytes();
  const uint32_t row_max = row_bytes_max(static_cast<CUtensorMapSwizzle>(map.swizzle));
  if (row % 16 != 0 || (row_max != 0 && row > row_max)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(out, &map, sizeof map);
  return CUDA_SUCCESS;
}

// Bounds of pixels, in each dimension between the first and the last: as many bits as fit for the
// rank.
CUresult set_bounds(const int* lower, const int* upper, TensorMap* map) {
  if (map->rank < kPixelRankMin || lower == nullptr || upper == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  const int end = map->rank == 3 ? 1 << 15 : map->rank == 4 ? 1 << 7 : 1 << 4;
  for (uint32_t d = 0; d + 2 < map->rank; ++d) {
    for (const int* bound : {&lower[d], &upper[d]}) {
      if (*bound < -end || *bound >= end) return CUDA_ERROR_INVALID_VALUE;
    }
    map->lower[d] = static_cast<int16_t>(lower[d]);
    map->upper[d] = static_cast<int16_t>(upper[d]);
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* steps,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if (const CUresult ready = softgpu::Driver::instance().ready(); ready != CUDA_SUCCESS)
    return ready;
  TensorMap map = {};
  CUresult result = begin_map(out, type, rank, address, sizes, strides, steps, swizzle, fill, &map);
  if (result == CUDA_SUCCESS && box == nullptr) result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) result = check_modes(type, interleave, swizzle, promotion, fill);
  if (result != CUDA_SUCCESS) return result;
  for (uint32_t d = 0; d < rank; ++d) {
    if (box[d] == 0 || box[d] > softgpu::kTensorBoxMax) return CUDA_ERROR_INVALID_VALUE;
    map.box[d] = static_cast<uint16_t>(box[d]);
  }
  return end_map(map, out);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                 void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                 const int* lower, const int* upper, cuuint32_t channels,
                                 cuuint32_t pixels, const cuuint32_t* steps,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if (const CUresult ready = softgpu::Driver::instance().ready(); ready != CUDA_SUCCESS)
    return ready;
  TensorMap map = {};
  CUresult result = begin_map(out, type, rank, address, sizes, strides, steps, swizzle, fill, &map);
  if (result == CUDA_SUCCESS) result = set_bounds(lower, upper, &map);
  if (result == CUDA_SUCCESS) result = check_modes(type, interleave, swizzle, promotion, fill);
  if (result != CUDA_SUCCESS) return result;
  if (channels == 0 || channels > softgpu::kTensorBoxMax || pixels == 0 ||
      pixels > softgpu::kTensorColumnMax)
    return CUDA_ERROR_INVALID_VALUE;
  map.mode = static_cast<uint8_t>(softgpu::TensorMode::kPixels);
  map.box[0] = static_cast<uint16_t>(channels);
  map.box[1] = static_cast<uint16_t>(pixels);
  return end_map(map, out);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* tensor_map, void* address) {
  if (const CUresult ready = softgpu::Driver::instance().ready(); ready != CUDA_SUCCESS)
    return ready;
  if (tensor_map == nullptr || !aligned(tensor_map, kMapAlignment) || address == nullptr ||
      !aligned(address, 16))
    return CUDA_ERROR_INVALID_VALUE;
  TensorMap map;
  std::memcpy(&map, tensor_map, sizeof map);
  if (!map.valid()) return CUDA_ERROR_INVALID_VALUE;
  map.address = reinterpret_cast<uint64_t>(address);
  std::memcpy(tensor_map, &map, sizeof map);
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
