// The memory double's boxes, arrays and textures. Arrays have no memory of their own: copies touch
// the other side of them only.
// SPDX-License-Identifier: Apache-2.0
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <mutex>

#include "base/slot_map.h"
#include "tests/doubles/memory_driver.h"

namespace {

using vgpu::testing::Kept;
using vgpu::testing::pointer;

struct FakeArray {
  int touched = 0;             // by every use: a stale one is noticed
  FakeArray* levels[16] = {};  // of a mipmapped one
};

// Handles as the software GPU mints them, whose guests are recorded: they name what they got.
std::mutex textures_mutex;
auto& textures = *new vgpu::SlotMap<char, 32>;
uint64_t make_texture() {
  std::lock_guard lock(textures_mutex);
  return textures.insert('t');
}
CUresult end_texture(uint64_t handle) {
  std::lock_guard lock(textures_mutex);
  return textures.remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

template <typename Handle>
FakeArray* array_of(Handle handle) {
  return reinterpret_cast<FakeArray*>(handle);
}

// Row `y` of slice `z` of one side; nullptr: of an array.
struct Side {
  char* base;
  size_t x, y, z, pitch, rows;
  char* row(size_t of, size_t slice) const {
    return base == nullptr ? nullptr : base + ((z + slice) * rows + y + of) * pitch + x;
  }
};

char* base_of(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array) {
  if (type == CU_MEMORYTYPE_HOST) return static_cast<char*>(const_cast<void*>(host));
  if (type != CU_MEMORYTYPE_ARRAY) return static_cast<char*>(pointer(device));
  ++array_of(array)->touched;
  return nullptr;
}

template <typename T>
CUresult fill(CUdeviceptr to, size_t pitch, T value, size_t width, size_t height) {
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < width; ++x) {
      std::memcpy(static_cast<char*>(pointer(to)) + y * pitch + x * sizeof(T), &value, sizeof(T));
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

namespace vgpu::testing {

CUresult copy_box(const CUDA_MEMCPY3D& c) {
  const Side to = {base_of(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray),
                   c.dstXInBytes,
                   c.dstY,
                   c.dstZ,
                   c.dstPitch,
                   c.dstHeight};
  const Side from = {base_of(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray),
                     c.srcXInBytes,
                     c.srcY,
                     c.srcZ,
                     c.srcPitch,
                     c.srcHeight};
  for (size_t z = 0; z < c.Depth; ++z) {
    for (size_t y = 0; y < c.Height; ++y) {
      char* target = to.row(y, z);
      const char* source = from.row(y, z);
      if (target == nullptr && source == nullptr) continue;
      if (target == nullptr) {
        const volatile char* read = source;
        for (size_t i = 0; i < c.WidthInBytes; ++i) (void)read[i];
      } else if (source == nullptr) {
        std::memset(target, 0, c.WidthInBytes);
      } else {
        std::memmove(target, source, c.WidthInBytes);
      }
    }
  }
  return CUDA_SUCCESS;
}

CUresult fill_box(CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width,
                  size_t height) {
  switch (element) {
    case 1:
      return fill(to, pitch, static_cast<uint8_t>(value), width, height);
    case 2:
      return fill(to, pitch, static_cast<uint16_t>(value), width, height);
    default:
      return fill(to, pitch, uint32_t{value}, width, height);
  }
}

}  // namespace vgpu::testing

EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream) {
  return vgpu::testing::copy_box(*copy);
}
EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                                  size_t height, CUstream) {
  return fill(to, pitch, value, width, height);
}
EXPORT CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                                   size_t height, CUstream) {
  return fill(to, pitch, value, width, height);
}
EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                                   size_t height, CUstream) {
  return fill(to, pitch, value, width, height);
}
EXPORT CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream) {
  return fill(to, 0, value, count, 1);
}

EXPORT CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR*) {
  return *array = reinterpret_cast<CUarray>(Kept<FakeArray>::make()), CUDA_SUCCESS;
}
EXPORT CUresult cuArrayDestroy(CUarray array) { return Kept<FakeArray>::destroy(array); }
EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR*,
                                       unsigned) {
  return *array = reinterpret_cast<CUmipmappedArray>(Kept<FakeArray>::make()), CUDA_SUCCESS;
}
EXPORT CUresult cuMipmappedArrayGetLevel(CUarray* level, CUmipmappedArray array, unsigned number) {
  if (number >= 16) return CUDA_ERROR_INVALID_VALUE;
  FakeArray*& made = array_of(array)->levels[number];
  if (made == nullptr) made = Kept<FakeArray>::make();
  return *level = reinterpret_cast<CUarray>(made), CUDA_SUCCESS;
}
EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  for (FakeArray* level : array_of(array)->levels) (void)Kept<FakeArray>::destroy(level);
  return Kept<FakeArray>::destroy(array);
}
EXPORT CUresult cuTexObjectCreate(CUtexObject* texture, const CUDA_RESOURCE_DESC* resource,
                                  const CUDA_TEXTURE_DESC*, const CUDA_RESOURCE_VIEW_DESC*) {
  if (resource->resType == CU_RESOURCE_TYPE_ARRAY) ++array_of(resource->res.array.hArray)->touched;
  if (resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
    ++array_of(resource->res.mipmap.hMipmappedArray)->touched;
  return *texture = make_texture(), CUDA_SUCCESS;
}
EXPORT CUresult cuTexObjectDestroy(CUtexObject texture) { return end_texture(texture); }
EXPORT CUresult cuSurfObjectCreate(CUsurfObject* surface, const CUDA_RESOURCE_DESC* resource) {
  ++array_of(resource->res.array.hArray)->touched;
  return *surface = make_texture(), CUDA_SUCCESS;
}
EXPORT CUresult cuSurfObjectDestroy(CUsurfObject surface) { return end_texture(surface); }
