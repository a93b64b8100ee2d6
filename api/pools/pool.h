// One memory pool: blocks given out, and blocks that were freed in a stream's order and are kept.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_API_POOLS_POOL_H_
#define VGPU_API_POOLS_POOL_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace vgpu {

// A position in a stream's work; one without a context: behind all work. `number` counts whatever
// the owner of the streams counts; it only rises.
struct StreamPlace {
  uint64_t context = 0, stream = 0;
  uint64_t number = 0;                // newest work of the stream
  uint64_t legacy_number = 0;         // newest work of the legacy stream, if the stream heeds it
  bool legacy = false;                // is the legacy stream of its context
  bool blocking = false;              // heeds the legacy stream, as that one does itself
  std::shared_ptr<const void> queue;  // for the owner's use
};

// Which streams have waited for which: an event that was recorded in one and waited for in another.
class StreamOrder {
 public:
  // What comes in `waiter` from now on comes behind work `number` of `recorded`.
  void follow(const StreamPlace& waiter, uint64_t context, uint64_t recorded, uint64_t number);
  // Whether work at `later` comes behind all that was before `earlier`.
  bool follows(const StreamPlace& later, const StreamPlace& earlier) const;
  void clear() { seen_.clear(); }

 private:
  struct Seen {
    uint64_t context, stream, number;
  };
  // Of each stream, and streams: those that have ended stay. What was forgotten costs memory only.
  static constexpr size_t kSeenMax = 16, kWaitersMax = 4096;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<Seen>> seen_;  // by (context, stream)
};

// Where the memory of pools comes from. Called with the pools' lock held, but release() where it
// waits.
class PoolMemory {
 public:
  virtual ~PoolMemory() = default;
  // A block of `bytes`, a multiple of the step, for `requested` bytes of the caller's.
  virtual CUresult allocate(uint64_t bytes, uint64_t requested, uint64_t* address) = 0;
  // Gives a block back that work up to `place` may use. `past`: it is known that none does.
  virtual void release(uint64_t address, const StreamPlace& place, bool past) = 0;
  // The block keeps its first `bytes`; the rest becomes a block of its own. False: not possible.
  virtual bool split(uint64_t address, uint64_t bytes) = 0;
  // How many bytes of the block the application may use; 0: it is freed.
  virtual void show(uint64_t address, uint64_t requested) = 0;
  // Another device may use memory of pools here, or may no longer; every `true` has its `false`.
  // INVALID_DEVICE when it cannot.
  virtual CUresult share(int device, bool on) = 0;
  // Whether all work up to there is known to be past; does not wait.
  virtual bool past(const StreamPlace& place) = 0;
  // Whether release() of a block that work up to `place` may use waits for nobody.
  virtual bool releasable(uint64_t address, const StreamPlace& place) {
    (void)address;
    return past(place);
  }
  // Whether other processes can have blocks.
  virtual bool exports() { return false; }
};

// By which other processes know a pool. Whoever has one reads it as bytes.
struct PoolName {
  uint64_t session = 0;  // the owner's use
  uint64_t secret_low = 0, secret_high = 0;
  bool operator==(const PoolName&) const = default;
};

inline constexpr uint64_t kPoolSmallStep = 512, kPoolLargeStep = uint64_t{2} << 20;

// Not thread-safe.
class Pool {
 public:
  struct Reuse {
    bool follow_events = true, opportunistic = true, internal = true;
  };

  // Memory of exactly `bytes`, a multiple of its step: kept if possible, else new.
  CUresult allocate(PoolMemory& memory, const StreamOrder& order, const StreamPlace& place,
                    uint64_t bytes, uint64_t requested, uint64_t* address);
  bool holds(uint64_t address) const { return live_.count(address) != 0; }
  // Keeps a block that was given out.
  void park(PoolMemory& memory, uint64_t address, const StreamPlace& place);
  // A block that came from elsewhere is as if given out.
  void adopt(uint64_t address, uint64_t bytes);
  // A block that was given out is no longer known; the caller gives it back.
  void forget(uint64_t address);
  // Gives a block that was given out back to where it came from.
  void free(PoolMemory& memory, uint64_t address, const StreamPlace& place);
  // Gives kept blocks back while more than `keep` bytes are reserved, and no fewer then; those that
  // work may still use only if `all`. Whether any went.
  bool trim(PoolMemory& memory, uint64_t keep, bool all);
  // Everything.
  void clear(PoolMemory& memory);

  bool empty() const { return live_.empty(); }
  uint64_t parked_bytes() const { return reserved_ - used_; }
  uint64_t reserved() const { return reserved_; }
  uint64_t used() const { return used_; }

  uint64_t reserved_high = 0, used_high = 0;
  uint64_t threshold = 0;
  uint64_t size_max = 0;  // 0: none
  Reuse reuse;

 private:
  struct Parked {
    uint64_t address;
    uint64_t turn;  // older ones go first
    StreamPlace place;
  };
  using ParkedBlocks = std::multimap<uint64_t, Parked>;  // by size

  bool usable(PoolMemory& memory, const StreamOrder& order, const StreamPlace& place,
              const StreamPlace& freed) const;
  uint64_t take_parked(PoolMemory& memory, const StreamOrder& order, const StreamPlace& place,
                       uint64_t bytes, uint64_t* held);
  void count_live(uint64_t address, uint64_t held);
  ParkedBlocks::iterator oldest(PoolMemory& memory, uint64_t bytes_max, bool all);

  std::unordered_map<uint64_t, uint64_t> live_;  // address -> bytes held
  ParkedBlocks parked_;
  uint64_t reserved_ = 0, used_ = 0, turn_ = 0;
};

}  // namespace vgpu

#endif  // VGPU_API_POOLS_POOL_H_
