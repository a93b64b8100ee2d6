// Handles of arrays and texture objects.
// SPDX-License-Identifier: Apache-2.0
#include "shim/array_table.h"

namespace vgpu::shim {

bool ArrayTable::find(uint64_t id, const Context* context, Array* array) const {
  std::lock_guard lock(mutex_);
  const Array* found = arrays_.find(id);
  if (found == nullptr || found->context != context) return false;
  *array = *found;
  array->id = id;
  return true;
}

bool ArrayTable::find_mipmapped(uint64_t id, const Context* context, MipmappedArray* array) const {
  std::lock_guard lock(mutex_);
  const MipmappedArray* found = mipmapped_.find(id);
  if (found == nullptr || found->context != context) return false;
  *array = *found;
  return true;
}

uint64_t ArrayTable::insert(const Array& array) {
  std::lock_guard lock(mutex_);
  const uint64_t id = arrays_.insert(array);
  if (id != 0) bytes_of(array.context).fetch_add(array.shape.bytes(), std::memory_order_relaxed);
  return id;
}

uint64_t ArrayTable::insert_mipmapped(const MipmappedArray& array) {
  std::lock_guard lock(mutex_);
  const uint64_t id = mipmapped_.insert(array);
  if (id == 0) return 0;
  mipmapped_.find(id)->levels.assign(array.shape.levels, 0);
  bytes_of(array.context).fetch_add(array.shape.bytes(), std::memory_order_relaxed);
  return id;
}

bool ArrayTable::remove(uint64_t id, const Context* context) {
  std::lock_guard lock(mutex_);
  const Array* found = arrays_.find(id);
  if (found == nullptr || found->context != context || found->of_mipmapped) return false;
  bytes_of(context).fetch_sub(found->shape.bytes(), std::memory_order_relaxed);
  return arrays_.remove(id);
}

bool ArrayTable::remove_mipmapped(uint64_t id, const Context* context) {
  std::lock_guard lock(mutex_);
  const MipmappedArray* found = mipmapped_.find(id);
  if (found == nullptr || found->context != context) return false;
  for (const uint64_t level : found->levels) arrays_.remove(level);
  bytes_of(context).fetch_sub(found->shape.bytes(), std::memory_order_relaxed);
  return mipmapped_.remove(id);
}

uint64_t ArrayTable::level(uint64_t mipmapped, const Context* context, uint32_t number,
                           bool* fresh) {
  std::lock_guard lock(mutex_);
  MipmappedArray* found = mipmapped_.find(mipmapped);
  if (found == nullptr || found->context != context || number >= found->levels.size()) return 0;
  uint64_t& id = found->levels[number];
  *fresh = id == 0;
  if (id == 0) {
    Array level;
    level.context = found->context;
    level.shape = found->shape.of_level(number);
    level.of_mipmapped = true;
    id = arrays_.insert(level);
  }
  return id;
}

void ArrayTable::insert_texture(uint64_t handle, const TextureObject& object) {
  std::lock_guard lock(mutex_);
  textures_[handle] = object;
}

bool ArrayTable::find_texture(uint64_t handle, bool surface, TextureObject* object) const {
  std::lock_guard lock(mutex_);
  const auto found = textures_.find(handle);
  if (found == textures_.end() || found->second.surface != surface) return false;
  *object = found->second;
  return true;
}

bool ArrayTable::remove_texture(uint64_t handle, bool surface) {
  std::lock_guard lock(mutex_);
  const auto found = textures_.find(handle);
  if (found == textures_.end() || found->second.surface != surface) return false;
  textures_.erase(found);
  return true;
}

void ArrayTable::forget(const Context* context) {
  std::lock_guard lock(mutex_);
  std::erase_if(textures_, [&](const auto& each) { return each.second.context == context; });
  std::vector<uint64_t> ids;
  arrays_.for_each([&](uint64_t id, const Array& each) {
    if (each.context != context) return;
    ids.push_back(id);
    if (!each.of_mipmapped)
      bytes_of(context).fetch_sub(each.shape.bytes(), std::memory_order_relaxed);
  });
  for (const uint64_t id : ids) arrays_.remove(id);
  ids.clear();
  mipmapped_.for_each([&](uint64_t id, const MipmappedArray& each) {
    if (each.context != context) return;
    ids.push_back(id);
    bytes_of(context).fetch_sub(each.shape.bytes(), std::memory_order_relaxed);
  });
  for (const uint64_t id : ids) mipmapped_.remove(id);
}

}  // namespace vgpu::shim
