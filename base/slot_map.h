// Objects under minted 64-bit ids: stale, foreign and invented ids find nothing.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_SLOT_MAP_H_
#define VGPU_BASE_SLOT_MAP_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace vgpu {

// An id, from the top:
//
//   63 62      56 55   52 51              28 27            4 3    0
//  ┌──┬──────────┬───────┬──────────────────┬───────────────┬──────┐
//  │0 │ type tag │ owner │    generation    │     index     │ 0000 │
//  └──┴──────────┴───────┴──────────────────┴───────────────┴──────┘
//
// The owner is 0 but in a guest of several servers: there each server's copy of the library mints
// with its own, so that a handle says whose it is (docs/decisions/0085-several-servers.md). The tag
// is never 0, so no id is 0, 1, 2 or -1 (values with a meaning of their own as streams). The low
// bits are 0 as in a pointer: there are programs that keep a flag of their own there.
struct SlotId {
  static constexpr int kIndexBits = 24, kGenerationBits = 24, kOwnerBits = 4, kTagBits = 7,
                       kShift = 4;
  static constexpr uint64_t kIndexMax = (uint64_t{1} << kIndexBits) - 1;
  static constexpr uint64_t kGenerationMax = (uint64_t{1} << kGenerationBits) - 1;
  static constexpr uint64_t kTagMax = (uint64_t{1} << kTagBits) - 1;

  static constexpr uint64_t make(uint64_t tag, uint64_t generation, uint64_t index) {
    return (tag << (kShift + kIndexBits + kGenerationBits + kOwnerBits)) |
           (generation << (kShift + kIndexBits)) | (index << kShift);
  }
  static constexpr uint64_t tag(uint64_t id) {
    return id >> (kShift + kIndexBits + kGenerationBits +
                  kOwnerBits);  // with bit 63: never a valid tag then
  }
  static constexpr uint64_t owner(uint64_t id) {
    return (id >> (kShift + kIndexBits + kGenerationBits)) & ((uint64_t{1} << kOwnerBits) - 1);
  }
  static constexpr uint64_t of_owner(uint64_t owner) {
    return owner << (kShift + kIndexBits + kGenerationBits);
  }
  static constexpr uint64_t generation(uint64_t id) {
    return (id >> (kShift + kIndexBits)) & kGenerationMax;
  }
  static constexpr uint64_t index(uint64_t id) { return (id >> kShift) & kIndexMax; }
};

// SlotId::of_owner of this library; written once, before anything is minted.
inline uint64_t g_minting_owner = 0;

// What becomes of an object whose id is removed.
enum class Removed : uint8_t {
  kEnds,   // it is destroyed
  kStays,  // it lasts as long as the map; the next insert into its slot calls renew() on it
};

// Map from minted ids to objects of type T, all with the same tag (1…kTagMax).
//
// insert, remove, clear and for_each need the owner's lock. find may run beside them without it and
// answers for the moment. A slot whose generations are used up is never used again, so an id is
// never minted twice; the memory of a slot is kept until the map ends.
//
// kEnds: the object behind a found pointer lives until its id is removed, so who can race with a
// remove keeps T alive by other means (a lock, or T is a reference).
// kStays: what was found is a T from then on, but after a remove it may become another id's at any
// moment. T is made of atomics, and T::renew stores into them with release: who has acquired a
// field of the next id's then no longer finds the one before. So what a found T said was said of
// its id when find still answers afterwards, and writing to it needs what keeps remove away.
// (docs/decisions/0024-removed-objects-stay.md)
template <typename T, uint64_t kTag, Removed kRemoved = Removed::kEnds>
class SlotMap {
  static_assert(kTag >= 1 && kTag <= SlotId::kTagMax);

 public:
  SlotMap() = default;
  SlotMap(const SlotMap&) = delete;
  SlotMap& operator=(const SlotMap&) = delete;
  ~SlotMap() {
    clear();
    if constexpr (kRemoved == Removed::kStays) {
      for (uint64_t index = 0; index < used_; ++index) slot(index).object()->~T();
    }
    for (auto& chunk : chunks_) delete chunk.load(std::memory_order_relaxed);
  }

  // Builds (or renews) a T and gives its id; 0 when all slots are taken or there is no memory.
  template <typename... Args>
  uint64_t insert(Args&&... args) {
    uint64_t index = free_head_;
    const bool fresh = index == kNone;
    if (fresh) {
      index = used_;
      if (index > kIndexLast || !ensure_chunk(index)) return 0;
      ++used_;
    } else {
      free_head_ = slot(index).next_free;
    }
    Slot& taken = slot(index);
    ++taken.generation;
    if constexpr (kRemoved == Removed::kStays) {
      if (fresh) new (taken.storage) T();
      taken.object()->renew(std::forward<Args>(args)...);
    } else {
      new (taken.storage) T(std::forward<Args>(args)...);
    }
    const uint64_t id = SlotId::make(kTag, taken.generation, index) | g_minting_owner;
    // Release: pairs with the acquire in find, so that a finder sees the T built above.
    taken.id.store(id, std::memory_order_release);
    ++size_;
    return id;
  }

  // The object, or nullptr when the id is not (or no longer) one of this map's. Lock-free.
  T* find(uint64_t id) const {
    const uint64_t index = SlotId::index(id);
    if (SlotId::tag(id) != kTag || index > kIndexLast) return nullptr;
    // Acquire: pairs with the release in ensure_chunk.
    const Chunk* chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
    if (chunk == nullptr) return nullptr;
    const Slot& found = (*chunk)[index % kChunkSlots];
    // Acquire: pairs with the release in insert.
    if (found.id.load(std::memory_order_acquire) != id) return nullptr;
    return found.object();
  }

  // Ends the id, and the object unless it stays. False when the id is not one of this map's.
  bool remove(uint64_t id) {
    T* object = find(id);
    if (object == nullptr) return false;
    const uint64_t index = SlotId::index(id);
    Slot& left = slot(index);
    left.id.store(0, std::memory_order_relaxed);  // finders from now on fail; none is waited for
    if constexpr (kRemoved == Removed::kEnds) object->~T();
    --size_;
    if (left.generation < SlotId::kGenerationMax) {
      left.next_free = free_head_;
      free_head_ = index;
    }
    return true;
  }

  // Calls f(id, T&) for every object, in order of index. f must not insert or remove.
  template <typename F>
  void for_each(F&& f) const {
    for (uint64_t index = 0; index < used_; ++index) {
      const Slot& each = slot(index);
      const uint64_t id = each.id.load(std::memory_order_relaxed);
      if (id != 0) f(id, *each.object());
    }
  }

  // Removes everything.
  void clear() {
    for (uint64_t index = 0; index < used_; ++index) {
      const uint64_t id = slot(index).id.load(std::memory_order_relaxed);
      if (id != 0) remove(id);
    }
  }

  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  static constexpr uint64_t kChunkSlots = 256;
  static constexpr uint64_t kChunksMax = 4096;
  static constexpr uint64_t kSlotsMax = kChunkSlots * kChunksMax;  // at the limit insert gives 0

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};
  static constexpr uint64_t kIndexLast = kSlotsMax - 1;
  static_assert(kIndexLast <= SlotId::kIndexMax);

  struct Slot {
    std::atomic<uint64_t> id{0};  // 0 = free
    uint64_t next_free = kNone;
    uint64_t generation = 0;
    alignas(T) std::byte storage[sizeof(T)];
    T* object() const {
      return std::launder(reinterpret_cast<T*>(const_cast<std::byte*>(storage)));
    }
  };
  using Chunk = std::array<Slot, kChunkSlots>;

  Slot& slot(uint64_t index) const {
    return (*chunks_[index / kChunkSlots].load(std::memory_order_relaxed))[index % kChunkSlots];
  }

  bool ensure_chunk(uint64_t index) {
    auto& place = chunks_[index / kChunkSlots];
    if (place.load(std::memory_order_relaxed) != nullptr) return true;
    auto* chunk = new (std::nothrow) Chunk;
    // Release: pairs with the acquire in find.
    place.store(chunk, std::memory_order_release);
    return chunk != nullptr;
  }

  std::array<std::atomic<Chunk*>, kChunksMax> chunks_{};
  uint64_t used_ = 0;  // slots ever taken
  uint64_t size_ = 0;
  uint64_t free_head_ = kNone;
};

}  // namespace vgpu

#endif  // VGPU_BASE_SLOT_MAP_H_
