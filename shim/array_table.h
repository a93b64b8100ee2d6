// Arrays and texture objects of the application: what stands behind their handles.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_ARRAY_TABLE_H_
#define VGPU_SHIM_ARRAY_TABLE_H_

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "api/geometry/array_shape.h"
#include "base/slot_map.h"
#include "protocol/limits.h"
#include "shim/objects.h"

namespace vgpu::shim {

// Copied out of the table: another thread may end the array meanwhile.
struct Array {
  uint64_t id = 0;
  Context* context = nullptr;
  ArrayShape shape;
  bool of_mipmapped = false;  // a level: ends with its mipmapped array
};

struct MipmappedArray {
  Context* context = nullptr;
  ArrayShape shape;
  std::vector<uint64_t> levels;  // ids of those that were asked for; 0: not yet
};

struct TextureObject {
  Context* context = nullptr;
  bool surface = false;
  CUDA_RESOURCE_DESC resource = {};
  CUDA_TEXTURE_DESC texture = {};
  std::optional<CUDA_RESOURCE_VIEW_DESC> view;
};

// Thread-safe.
class ArrayTable {
 public:
  // False when `id` is no array of `context`.
  bool find(uint64_t id, const Context* context, Array* array) const;
  bool find_mipmapped(uint64_t id, const Context* context, MipmappedArray* array) const;

  // An id before the worker knows it; 0 when all are taken.
  uint64_t insert(const Array& array);
  uint64_t insert_mipmapped(const MipmappedArray& array);
  // False when `id` is not an array of its own in `context`.
  bool remove(uint64_t id, const Context* context);
  // With its levels.
  bool remove_mipmapped(uint64_t id, const Context* context);
  // The id of a level, minted when it is asked for first (*fresh). 0: no such level.
  uint64_t level(uint64_t mipmapped, const Context* context, uint32_t number, bool* fresh);

  void insert_texture(uint64_t handle, const TextureObject& object);
  bool find_texture(uint64_t handle, bool surface, TextureObject* object) const;
  bool remove_texture(uint64_t handle, bool surface);

  void forget(const Context* context);
  // Memory of a device that arrays take.
  // How many there are, levels included.
  uint64_t count() const {
    std::lock_guard lock(mutex_);
    return arrays_.size() + mipmapped_.size();
  }
  uint64_t bytes(CUdevice device) const {
    return bytes_[static_cast<size_t>(device)].load(std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t>& bytes_of(const Context* context) {
    return bytes_[static_cast<size_t>(context->device)];
  }

  mutable std::mutex mutex_;
  SlotMap<Array, kArrayTag> arrays_;
  SlotMap<MipmappedArray, kMipmappedArrayTag> mipmapped_;
  std::map<uint64_t, TextureObject> textures_;  // by the worker's driver's handle
  // By device; figures: nothing is ordered by them.
  std::array<std::atomic<uint64_t>, protocol::kDevicesMax> bytes_{};
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_ARRAY_TABLE_H_
