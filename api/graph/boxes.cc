// Copies of all forms as CUDA_MEMCPY3D.
// SPDX-License-Identifier: Apache-2.0
#include "api/graph/capture.h"

namespace vgpu::graph {

CUDA_MEMCPY3D linear_copy(CUdeviceptr to, CUmemorytype to_type, CUdeviceptr from,
                          CUmemorytype from_type, size_t bytes) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = from_type;
  copy.dstMemoryType = to_type;
  if (from_type == CU_MEMORYTYPE_HOST) {
    copy.srcHost = reinterpret_cast<const void*>(from);
  } else {
    copy.srcDevice = from;
  }
  if (to_type == CU_MEMORYTYPE_HOST) {
    copy.dstHost = reinterpret_cast<void*>(to);
  } else {
    copy.dstDevice = to;
  }
  copy.WidthInBytes = bytes;
  copy.Height = 1;
  copy.Depth = 1;
  return copy;
}

CUDA_MEMCPY3D box_of(const CUDA_MEMCPY2D& copy) {
  CUDA_MEMCPY3D box = {};
  box.srcXInBytes = copy.srcXInBytes;
  box.srcY = copy.srcY;
  box.srcMemoryType = copy.srcMemoryType;
  box.srcHost = copy.srcHost;
  box.srcDevice = copy.srcDevice;
  box.srcArray = copy.srcArray;
  box.srcPitch = copy.srcPitch;
  box.dstXInBytes = copy.dstXInBytes;
  box.dstY = copy.dstY;
  box.dstMemoryType = copy.dstMemoryType;
  box.dstHost = copy.dstHost;
  box.dstDevice = copy.dstDevice;
  box.dstArray = copy.dstArray;
  box.dstPitch = copy.dstPitch;
  box.WidthInBytes = copy.WidthInBytes;
  box.Height = copy.Height;
  box.Depth = 1;
  return box;
}

CUDA_MEMCPY3D box_of(const RectSide& to, const RectSide& from, size_t bytes) {
  CUDA_MEMCPY3D box = linear_copy(to.address, to.type, from.address, from.type, bytes);
  box.srcArray = from.array;
  box.srcXInBytes = from.x;
  box.dstArray = to.array;
  box.dstXInBytes = to.x;
  return box;
}

}  // namespace vgpu::graph
