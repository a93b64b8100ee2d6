// A set of addresses, kept as ranges that do not touch each other.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_ADDRESS_SET_H_
#define VGPU_SERVER_ADDRESS_SET_H_

#include <cstdint>
#include <map>

namespace vgpu::server {

// Not thread-safe. Ranges are [base, base + bytes); one that wraps around 2^64 is never in a set.
class AddressSet {
 public:
  // Adds a range. False, and nothing changes, when it is empty, wraps, or overlaps what is in.
  bool insert(uint64_t base, uint64_t bytes);
  // Adds a range that may overlap what is in. False when it is empty or wraps.
  bool merge(uint64_t base, uint64_t bytes);
  // Takes out what of the range is in.
  void erase(uint64_t base, uint64_t bytes);
  // Whether the whole range is in. An empty range is, when its base is in or just behind.
  bool contains(uint64_t base, uint64_t bytes) const;
  bool overlaps(uint64_t base, uint64_t bytes) const;
  // Calls visit(base, bytes) for each range.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& [base, end] : ends_) visit(base, end - base);
  }

 private:
  std::map<uint64_t, uint64_t> ends_;  // base of a range -> its end
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_ADDRESS_SET_H_
