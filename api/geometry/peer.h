// Copies between contexts as copies of one, and back: with one address space the contexts only say
// which devices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace vgpu {

// What both descriptions of a box have in common.
template <typename To, typename From>
inline To same_box(const From& box) {
  To copy = {};
  copy.srcXInBytes = box.srcXInBytes;
  copy.srcY = box.srcY;
  copy.srcZ = box.srcZ;
  copy.srcLOD = box.srcLOD;
  copy.srcMemoryType = box.srcMemoryType;
  copy.srcHost = box.srcHost;
  copy.srcDevice = box.srcDevice;
  copy.srcArray = box.srcArray;
  copy.srcPitch = box.srcPitch;
  copy.srcHeight = box.srcHeight;
  copy.dstXInBytes = box.dstXInBytes;
  copy.dstY = box.dstY;
  copy.dstZ = box.dstZ;
  copy.dstLOD = box.dstLOD;
  copy.dstMemoryType = box.dstMemoryType;
  copy.dstHost = box.dstHost;
  copy.dstDevice = box.dstDevice;
  copy.dstArray = box.dstArray;
  copy.dstPitch = box.dstPitch;
  copy.dstHeight = box.dstHeight;
  copy.WidthInBytes = box.WidthInBytes;
  copy.Height = box.Height;
  copy.Depth = box.Depth;
  return copy;
}

inline CUDA_MEMCPY3D without_contexts(const CUDA_MEMCPY3D_PEER& peer) {
  return same_box<CUDA_MEMCPY3D>(peer);
}

inline CUDA_MEMCPY3D_PEER with_contexts(const CUDA_MEMCPY3D& copy, CUcontext to, CUcontext from) {
  auto peer = same_box<CUDA_MEMCPY3D_PEER>(copy);
  peer.dstContext = to;
  peer.srcContext = from;
  return peer;
}

}  // namespace vgpu
