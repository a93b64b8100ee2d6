// Addresses that are free to be reserved.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_MEMORY_FREE_RANGES_H_
#define VGPU_SHIM_MEMORY_FREE_RANGES_H_

#include <cstdint>
#include <iterator>
#include <map>

namespace vgpu::shim {

// Not thread-safe. First fit.
class FreeRanges {
 public:
  FreeRanges(uint64_t base, uint64_t bytes) {
    if (bytes != 0) free_[base] = bytes;
  }

  // Exactly [address, address + bytes). False: not all of it is free.
  bool take(uint64_t address, uint64_t bytes) {
    auto it = free_.upper_bound(address);
    if (it == free_.begin()) return false;
    --it;
    const auto [begin, size] = *it;
    if (address - begin > size || bytes > size - (address - begin)) return false;
    free_.erase(it);
    if (address != begin) free_[begin] = address - begin;
    const uint64_t end = begin + size;
    if (address + bytes != end) free_[address + bytes] = end - (address + bytes);
    return true;
  }
  // Anywhere at a multiple of `alignment`, a power of two; 0: no room.
  uint64_t take_anywhere(uint64_t bytes, uint64_t alignment) {
    for (const auto& [start, size] : free_) {
      const uint64_t address = (start + alignment - 1) & ~(alignment - 1);
      if (address < start || address - start > size || bytes > size - (address - start)) continue;
      (void)take(address, bytes);
      return address;
    }
    return 0;
  }
  void give(uint64_t address, uint64_t bytes) {
    auto next = free_.lower_bound(address);
    if (next != free_.end() && next->first == address + bytes) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == address) {
      std::prev(next)->second += bytes;
    } else {
      free_[address] = bytes;
    }
  }

 private:
  std::map<uint64_t, uint64_t> free_;  // address -> bytes, never adjacent
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_MEMORY_FREE_RANGES_H_
