// What of a pool's kept memory a stream may have, and what goes back.
// SPDX-License-Identifier: Apache-2.0
#include "api/pools/pool.h"

#include <algorithm>

namespace vgpu {

void StreamOrder::follow(const StreamPlace& waiter, uint64_t context, uint64_t recorded,
                         uint64_t number) {
  if (seen_.size() >= kWaitersMax && seen_.count({waiter.context, waiter.stream}) == 0)
    seen_.clear();
  std::vector<Seen>& seen = seen_[{waiter.context, waiter.stream}];
  for (Seen& each : seen) {
    if (each.context != context || each.stream != recorded) continue;
    each.number = std::max(each.number, number);
    return;
  }
  if (seen.size() >= kSeenMax) seen.erase(seen.begin());
  seen.push_back({context, recorded, number});
}

bool StreamOrder::follows(const StreamPlace& later, const StreamPlace& earlier) const {
  if (later.context == earlier.context) {
    if (later.stream == earlier.stream) return true;
    if (later.blocking && earlier.blocking && (later.legacy || earlier.legacy)) return true;
  }
  const auto found = seen_.find({later.context, later.stream});
  if (found == seen_.end()) return false;
  const uint64_t needed = std::max(earlier.number, earlier.legacy_number);
  return std::any_of(found->second.begin(), found->second.end(), [&](const Seen& each) {
    return each.context == earlier.context && each.stream == earlier.stream &&
           each.number >= needed;
  });
}

bool Pool::usable(PoolMemory& memory, const StreamOrder& order, const StreamPlace& place,
                  const StreamPlace& freed) const {
  if (place.context == freed.context && place.stream == freed.stream) return true;
  if (reuse.follow_events && order.follows(place, freed)) return true;
  return reuse.opportunistic && memory.past(freed);
}

// A kept block that `place` may use: of the same size, a little larger if it is small, or cut from
// a larger one.
uint64_t Pool::take_parked(PoolMemory& memory, const StreamOrder& order, const StreamPlace& place,
                           uint64_t bytes, uint64_t* held) {
  constexpr int kLooksMax = 64;
  const bool small = bytes < kPoolLargeStep;
  int looks = 0;
  for (auto it = parked_.lower_bound(bytes); it != parked_.end() && looks < kLooksMax;
       ++it, ++looks) {
    if (small && it->first > bytes + bytes / 4) return 0;
    if (!usable(memory, order, place, it->second.place)) continue;
    const uint64_t address = it->second.address;
    *held = it->first;
    if (!small && it->first != bytes) {
      if (!memory.split(address, bytes)) continue;
      Parked rest = it->second;
      rest.address += bytes;
      parked_.emplace(it->first - bytes, std::move(rest));
      *held = bytes;
    }
    parked_.erase(it);
    return address;
  }
  return 0;
}

CUresult Pool::allocate(PoolMemory& memory, const StreamOrder& order, const StreamPlace& place,
                        uint64_t bytes, uint64_t requested, uint64_t* address) {
  uint64_t held = bytes;
  if (!parked_.empty()) {
    if (const uint64_t kept = take_parked(memory, order, place, bytes, &held); kept != 0) {
      memory.show(kept, requested);
      count_live(kept, held);
      *address = kept;
      return CUDA_SUCCESS;
    }
  }
  if (size_max != 0 && bytes > size_max - std::min(size_max, reserved_)) {
    (void)trim(memory, size_max - std::min(size_max, bytes), false);
    if (bytes > size_max - std::min(size_max, reserved_)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = memory.allocate(bytes, requested, address);
  if (result != CUDA_SUCCESS) return result;
  adopt(*address, bytes);
  return CUDA_SUCCESS;
}

void Pool::count_live(uint64_t address, uint64_t held) {
  live_[address] = held;
  used_ += held;
  used_high = std::max(used_high, used_);
}

void Pool::park(PoolMemory& memory, uint64_t address, const StreamPlace& place) {
  const auto it = live_.find(address);
  used_ -= it->second;
  memory.show(address, 0);
  parked_.emplace(it->second, Parked{address, ++turn_, place});
  live_.erase(it);
}

void Pool::adopt(uint64_t address, uint64_t bytes) {
  reserved_ += bytes;
  reserved_high = std::max(reserved_high, reserved_);
  count_live(address, bytes);
}

void Pool::forget(uint64_t address) {
  const auto it = live_.find(address);
  used_ -= it->second;
  reserved_ -= it->second;
  live_.erase(it);
}

void Pool::free(PoolMemory& memory, uint64_t address, const StreamPlace& place) {
  forget(address);
  memory.release(address, place, false);
}

Pool::ParkedBlocks::iterator Pool::oldest(PoolMemory& memory, uint64_t bytes_max, bool all) {
  auto best = parked_.end();
  for (auto it = parked_.begin(); it != parked_.end() && it->first <= bytes_max; ++it) {
    if (best != parked_.end() && it->second.turn > best->second.turn) continue;
    if (all || memory.releasable(it->second.address, it->second.place)) best = it;
  }
  return best;
}

bool Pool::trim(PoolMemory& memory, uint64_t keep, bool all) {
  bool any = false;
  if (keep == 0) {  // the usual case: no order to heed
    std::erase_if(parked_, [&](const auto& each) {
      const bool past = memory.past(each.second.place);
      if (!all && !(past && memory.releasable(each.second.address, each.second.place)))
        return false;
      reserved_ -= each.first;
      memory.release(each.second.address, each.second.place, past);
      return any = true;
    });
    return any;
  }
  while (reserved_ > keep) {
    const auto it = oldest(memory, reserved_ - keep, all);
    if (it == parked_.end()) return any;
    reserved_ -= it->first;
    memory.release(it->second.address, it->second.place, memory.past(it->second.place));
    parked_.erase(it);
    any = true;
  }
  return any;
}

void Pool::clear(PoolMemory& memory) {
  (void)trim(memory, 0, true);
  for (const auto& [address, held] : live_) memory.release(address, {}, false);
  live_.clear();
  reserved_ = used_ = 0;
}

}  // namespace vgpu
