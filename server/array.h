// Arrays, and texture and surface objects, of one guest.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_ARRAY_H_
#define VGPU_SERVER_ARRAY_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "api/geometry/array_shape.h"
#include "driver_table.h"
#include "server/handles.h"

namespace vgpu::server {

struct Context;

struct Array {
  CUarray handle = nullptr;
  Context* context = nullptr;
  ArrayShape shape;
  uint64_t mipmapped = 0;  // id of what it is a level of; 0: an array of its own
  uint64_t charged = 0;    // bytes of the quota
};

struct MipmappedArray {
  CUmipmappedArray handle = nullptr;
  Context* context = nullptr;
  ArrayShape shape;
  uint64_t charged = 0;
};

struct TextureEntry {
  uint64_t handle = 0;
  Context* context = nullptr;
  bool surface = false;
};

// Texture and surface objects that a guest may have at once. At the limit creation fails.
inline constexpr size_t kTexturesMax = 1 << 16;

// Not thread-safe: the consumer's thread.
struct ArrayTables {
  HandleTable<Array> arrays;
  HandleTable<MipmappedArray> mipmapped;
  std::map<uint64_t, TextureEntry> textures;  // by the driver's handle, which kernels use
};

// What the guest has made in a context, taken out of the tables.
struct ArrayRemains {
  std::vector<TextureEntry> textures;
  std::vector<std::unique_ptr<Array>> arrays;
  std::vector<std::unique_ptr<MipmappedArray>> mipmapped;
  uint64_t charged = 0;  // bytes of the quota
};
ArrayRemains take_arrays(ArrayTables* tables, const Context* context);
// Thread-safe; the context is current.
void destroy_arrays(const DriverTable& driver, ArrayRemains* remains);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_ARRAY_H_
