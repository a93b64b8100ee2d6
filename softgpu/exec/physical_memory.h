// Physical device memory for the virtual memory family: ranges of one sparse memory file that can
// be mapped anywhere. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/status.h"
#include "base/unique_fd.h"
#include "softgpu/exec/device_segment.h"

namespace vgpu::softgpu {

inline constexpr uint64_t kGranularity = 2ull
                                         << 20;  // of cuMemCreate, cuMemMap and cuMemAddressReserve

// Thread-safe. Address ranges and what is mapped in them are kept here too, since they share their
// rules.
class PhysicalMemory {
 public:
  static Result<std::unique_ptr<PhysicalMemory>> create(DeviceSegment* segment);
  ~PhysicalMemory();

  // cuMemCreate: offset of new zeroed memory in the file; nullopt when the device has no more.
  // Referenced once.
  std::optional<uint64_t> allocate(uint64_t bytes);
  // Drops one reference (the handle's or a mapping's); the last gives the memory back.
  void release(uint64_t offset);
  uint64_t bytes_of(uint64_t offset) const;

  // cuMemAddressReserve: `hint` when it is free, else anywhere. Zero when there is no room.
  uint64_t reserve_addresses(uint64_t bytes, uint64_t alignment, uint64_t hint);
  bool free_addresses(uint64_t address, uint64_t bytes);

  // cuMemMap and cuMemUnmap of whole allocations; false when the addresses are not reserved, in
  // use, or not mapped so.
  bool map(uint64_t address, uint64_t bytes, uint64_t offset);
  bool unmap(uint64_t address, uint64_t bytes);
  // cuMemSetAccess: protection of whole mappings. `protection` as for mprotect.
  bool protect(uint64_t address, uint64_t bytes, int protection);
  // Calls visit(base, bytes) for each mapping in the range.
  template <typename Visit>
  void each_mapping(uint64_t address, uint64_t bytes, Visit visit) const {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = mappings_.lower_bound(address);
         it != mappings_.end() && it->first < address + bytes; ++it) {
      visit(it->first, it->second.bytes);
    }
  }

 private:
  struct Allocation {
    uint64_t bytes;
    uint32_t references;
  };
  struct PhysicalMapping {
    uint64_t bytes;
    uint64_t offset;
  };

  explicit PhysicalMemory(DeviceSegment* segment) : segment_(segment) {}
  bool inside_reservation(uint64_t address, uint64_t bytes) const;
  bool exactly_mapped(uint64_t address, uint64_t bytes) const;
  void release_locked(uint64_t offset);

  DeviceSegment* const segment_;
  UniqueFd file_;
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_;             // offset -> bytes, never adjacent
  std::map<uint64_t, Allocation> allocations_;    // by offset
  std::map<uint64_t, uint64_t> reservations_;     // address -> bytes
  std::map<uint64_t, PhysicalMapping> mappings_;  // by address
};

}  // namespace vgpu::softgpu
