// Handles given to the program: minted ids, never addresses, so that any value can be looked up
// safely. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "base/slot_map.h"

namespace vgpu::softgpu {

// Tags of the ids, one per kind of handle.
enum HandleTag : uint64_t {
  kContextTag = 1,
  kStreamTag,
  kEventTag,
  kModuleTag,
  kFunctionTag,
  kLibraryTag,
  kKernelTag,
  kPhysicalTag,
  kArrayTag,
  kMipmappedArrayTag,
  kLinkTag,
  kConditionTag,
};

// Contrary mode sets a low bit in every handle: nothing may assume that handles are aligned.
inline bool odd_handles = false;

inline uint64_t handle_bits(uint64_t id) { return odd_handles ? id | 5 : id; }
inline uint64_t id_of_bits(uint64_t bits) {
  return odd_handles && (bits & 15) == 5 ? bits & ~15ull : bits;
}

template <typename Handle>
uint64_t id_of(Handle handle) {
  return id_of_bits(reinterpret_cast<uint64_t>(handle));
}

// Thread-safe map from handles to shared objects: what was found lives on while its user holds it.
template <typename Handle, typename T, uint64_t kTag>
class Handles {
 public:
  // nullptr when all ids are taken.
  Handle insert(std::shared_ptr<T> object) {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    const uint64_t id = map_.insert(std::move(object));
    return id == 0 ? Handle{} : reinterpret_cast<Handle>(handle_bits(id));
  }
  std::shared_ptr<T> find(Handle handle) const {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    const std::shared_ptr<T>* found = map_.find(id_of(handle));
    return found == nullptr ? nullptr : *found;
  }
  // Takes the object out; nullptr when the handle is not one of these. The caller destroys it,
  // without our lock.
  std::shared_ptr<T> remove(Handle handle) {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    std::shared_ptr<T>* found = map_.find(id_of(handle));
    if (found == nullptr) return nullptr;
    std::shared_ptr<T> object = std::move(*found);
    map_.remove(id_of(handle));
    return object;
  }
  // The first object for which `wanted` is true; walks all of them.
  template <typename Wanted>
  std::shared_ptr<T> find_if(Wanted&& wanted) const {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    std::shared_ptr<T> found;
    map_.for_each([&](uint64_t, const std::shared_ptr<T>& each) {
      if (found == nullptr && wanted(*each)) found = each;
    });
    return found;
  }
  // Under our lock: `visit` must not come back here.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    map_.for_each([&](uint64_t, const std::shared_ptr<T>& each) { visit(*each); });
  }
  // Takes out every object for which `wanted` is true.
  template <typename Wanted>
  void remove_if(Wanted&& wanted) {
    std::vector<uint64_t> ids;
    std::vector<std::shared_ptr<T>> removed;  // destroyed without our lock
    std::unique_lock<std::shared_mutex> lock(mutex_);
    map_.for_each([&](uint64_t id, const std::shared_ptr<T>& each) {
      if (wanted(*each)) ids.push_back(id);
    });
    for (const uint64_t id : ids) {
      removed.push_back(std::move(*map_.find(id)));
      map_.remove(id);
    }
    lock.unlock();
  }

 private:
  mutable std::shared_mutex mutex_;
  SlotMap<std::shared_ptr<T>, kTag> map_;
};

}  // namespace vgpu::softgpu
