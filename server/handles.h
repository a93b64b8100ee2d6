// Objects under ids that the guest has minted: foreign and stale ids find nothing.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_HANDLES_H_
#define VGPU_SERVER_HANDLES_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace vgpu::server {

// Objects of one type that a guest may have at once. At the limit its session ends.
inline constexpr uint64_t kHandlesMax = 1 << 18;

// What tables of one session may hold together. The consumer's thread.
struct HandleBudget {
  uint64_t used = 0, max = UINT64_MAX;
};

// Table from id to T. The guest's ids carry an index in bits 4..27 and above it generation and type
// (base/slot_map.h), so a table is an array and the whole id is compared: an id of another type, of
// an earlier generation or an invented one is unknown. Not thread-safe: the consumer's thread.
template <typename T>
class HandleTable {
 public:
  T* find(uint64_t id) const {
    const uint64_t index = index_of(id);
    if (id == 0 || index >= entries_.size() || entries_[index].id != id) return nullptr;
    return entries_[index].object.get();
  }

  // So many objects at most, and no more in all tables of `budget`, which stays borrowed. Before
  // any insert.
  void bound(uint64_t max, HandleBudget* budget) {
    max_ = max;
    budget_ = budget;
  }

  // Nullptr when the id is not one that could be minted now.
  T* insert(uint64_t id, std::unique_ptr<T> object) {
    const uint64_t index = index_of(id);
    if (id == 0 || (id & 0xf) != 0 || index >= kHandlesMax || size_ >= max_) return nullptr;
    if (budget_ != nullptr && budget_->used >= budget_->max) return nullptr;
    if (index >= entries_.size()) entries_.resize(index + 1);
    Entry& entry = entries_[index];
    if (entry.id != 0) return nullptr;
    entry.id = id;
    entry.object = std::move(object);
    ++size_;
    if (budget_ != nullptr) ++budget_->used;
    return entry.object.get();
  }

  // The object, now the caller's; nullptr when the id is unknown.
  std::unique_ptr<T> take(uint64_t id) {
    if (find(id) == nullptr) return nullptr;
    Entry& entry = entries_[index_of(id)];
    entry.id = 0;
    --size_;
    if (budget_ != nullptr) --budget_->used;
    return std::move(entry.object);
  }

  template <typename F>
  void for_each(F&& f) const {
    for (const Entry& entry : entries_) {
      if (entry.id != 0) f(entry.id, *entry.object);
    }
  }

  uint64_t size() const { return size_; }

 private:
  struct Entry {
    uint64_t id = 0;
    std::unique_ptr<T> object;
  };

  static uint64_t index_of(uint64_t id) { return (id >> 4) & 0xffffff; }

  std::vector<Entry> entries_;
  uint64_t size_ = 0;
  uint64_t max_ = UINT64_MAX;
  HandleBudget* budget_ = nullptr;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_HANDLES_H_
