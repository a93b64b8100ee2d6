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
constexpr uint32_t kStepMax = 8;

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
             "cuTensorMapEncodeTiled: interleaved layouts and types of less than a byte are not "
             "supported");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

// Each dimension's numbers into `map`, whose rank and type are set.
CUresult set_shape(const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                   const cuuint32_t* steps, TensorMap* map) {
  if (sizes == nullptr || box == nullptr || steps == nullptr ||
      (strides == nullptr && map->rank > 1))
    return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t d = 0; d < map->rank; ++d) {
    if (sizes[d] == 0 || sizes[d] > kSizeMax || box[d] == 0 || box[d] > softgpu::kTensorBoxMax ||
        steps[d] == 0 || steps[d] > kStepMax)
      return CUDA_ERROR_INVALID_VALUE;
    map->last[d] = static_cast<uint32_t>(sizes[d] - 1);
    map->box[d] = static_cast<uint16_t>(box[d]);
    map->steps[d] = static_cast<uint8_t>(steps[d]);
    if (d == 0) continue;
    const uint64_t stride = strides[d - 1];
    if (stride % 16 != 0 || stride >= kStrideEnd) return CUDA_ERROR_INVALID_VALUE;
    map->strides[d - 1] = stride;
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
  if (out == nullptr || !aligned(out, kMapAlignment) || rank == 0 ||
      rank > softgpu::kTensorRankMax || address == nullptr || !aligned(address, 16))
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_modes(type, interleave, swizzle, promotion, fill);
      result != CUDA_SUCCESS)
    return result;
  TensorMap map = {};
  map.address = reinterpret_cast<uint64_t>(address);
  map.magic = softgpu::kTensorMapMagic;
  map.type = static_cast<uint8_t>(type);
  map.rank = static_cast<uint8_t>(rank);
  map.swizzle = static_cast<uint8_t>(swizzle);
  map.fill = static_cast<uint8_t>(fill);
  if (const CUresult result = set_shape(sizes, strides, box, steps, &map); result != CUDA_SUCCESS)
    return result;
  const uint32_t row = map.box[0] * map.element_bytes(), row_max = row_bytes_max(swizzle);
  if (row % 16 != 0 || (row_max != 0 && row > row_max)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(out, &map, sizeof map);
  return CUDA_SUCCESS;
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
