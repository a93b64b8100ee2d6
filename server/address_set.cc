// Ranges of addresses: neighbours are joined, so a check is one look-up.
// SPDX-License-Identifier: Apache-2.0
#include "server/address_set.h"

#include <algorithm>
#include <iterator>

namespace vgpu::server {

bool AddressSet::insert(uint64_t base, uint64_t bytes) {
  return !overlaps(base, bytes) && merge(base, bytes);
}

bool AddressSet::merge(uint64_t base, uint64_t bytes) {
  if (bytes == 0 || base + bytes < base) return false;
  uint64_t end = base + bytes;
  auto it = ends_.upper_bound(base);
  if (it != ends_.begin() && std::prev(it)->second >= base) --it;
  while (it != ends_.end() && it->first <= end) {
    base = std::min(base, it->first);
    end = std::max(end, it->second);
    it = ends_.erase(it);
  }
  ends_[base] = end;
  return true;
}

void AddressSet::erase(uint64_t base, uint64_t bytes) {
  if (bytes == 0 || base + bytes < base) return;
  const uint64_t end = base + bytes;
  auto it = ends_.upper_bound(base);
  if (it != ends_.begin()) --it;
  while (it != ends_.end() && it->first < end) {
    const auto [first, last] = *it;
    if (last <= base) {
      ++it;
      continue;
    }
    it = ends_.erase(it);
    if (first < base) ends_[first] = base;
    if (last > end) it = ends_.emplace(end, last).first;
  }
}

bool AddressSet::contains(uint64_t base, uint64_t bytes) const {
  if (base + bytes < base) return false;
  auto it = ends_.upper_bound(base);
  if (it == ends_.begin()) return false;
  return base + bytes <= std::prev(it)->second;
}

bool AddressSet::overlaps(uint64_t base, uint64_t bytes) const {
  if (base + bytes < base) return true;
  auto it = ends_.lower_bound(base + bytes);
  return it != ends_.begin() && std::prev(it)->second > base;
}

}  // namespace vgpu::server
