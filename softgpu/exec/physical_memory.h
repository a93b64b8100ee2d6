// Physical device memory for the virtual memory family: ranges of one sparse memory file that can
// be mapped anywhere; what is shared with other processes has files of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "softgpu/exec/device_segment.h"

namespace vgpu::softgpu {

inline constexpr uint64_t kGranularity = 2ull
                                         << 20;  // of cuMemCreate, cuMemMap and cuMemAddressReserve

// Of the common file: sparse, far more than any device, so that holes do not matter.
inline constexpr uint64_t kCommonFileBytes = 1ull << 40;

// Memory of one device. Thread-safe. Address ranges and what is mapped in them are kept here too,
// since they share their rules; they are the process's, so the first device keeps them for all.
class PhysicalMemory {
 public:
  // `first`: of the device that keeps the addresses, and outlives this; null: this one does.
  // `identity`: the device's, by which other processes know it.
  static Result<std::unique_ptr<PhysicalMemory>> create(DeviceSegment* segment,
                                                        PhysicalMemory* first = nullptr,
                                                        int identity = 0);
  ~PhysicalMemory();

  // cuMemCreate: key of new zeroed memory; nullopt when the device has no more. Referenced once.
  std::optional<uint64_t> allocate(uint64_t bytes);
  // Drops one reference (the handle's or a mapping's). True: it was the last, the memory is gone,
  // and *name is what it was known by.
  bool release(uint64_t key, uint64_t* name = nullptr);
  uint64_t bytes_of(uint64_t key) const;
  // What the caller knows the memory by: retain() and unmap() answer with it.
  void set_name(uint64_t key, uint64_t name);
  // The name of what is mapped at `address`, with one reference more. nullopt: nothing is.
  std::optional<uint64_t> retain(uint64_t address);
  // The protection for a device of what is mapped there, as for mprotect; -1: nothing is.
  int protection_at(uint64_t address, int device) const;

  // cuMemExportToShareableHandle: a new descriptor of the memory, which is moved into a file of its
  // own first, whatever runs meanwhile. -1: the system gives none. (physical_sharing.cc)
  int export_file(uint64_t key);
  // cuMemImportFromShareableHandle: key of the memory behind a descriptor of export_file(), of this
  // process or another. The device's ledger counts it with who made it. nullopt: no such file, or
  // another device's.
  std::optional<uint64_t> import_file(int file);

  // cuMemAddressReserve: `hint` when it is free, else anywhere. Zero when there is no room.
  uint64_t reserve_addresses(uint64_t bytes, uint64_t alignment, uint64_t hint);
  bool free_addresses(uint64_t address, uint64_t bytes);
  // The reservation that `address` lies in. False, and nothing is changed: none.
  bool reservation_of(uint64_t address, uint64_t* base, uint64_t* bytes) const;
  // The name of what is mapped at `address`; 0: nothing is.
  uint64_t name_at(uint64_t address) const;

  // cuMemMap and cuMemUnmap of whole allocations (of this device's; any device's are unmapped);
  // false when the addresses are not reserved, in use, or not mapped so.
  bool map(uint64_t address, uint64_t bytes, uint64_t key);
  // `gone`: names of the memory that went with its last mapping.
  bool unmap(uint64_t address, uint64_t bytes, std::vector<uint64_t>* gone = nullptr);
  // cuMemSetAccess: protection of whole mappings, as for mprotect. All devices are this process:
  // what one of them may do is possible.
  bool protect(uint64_t address, uint64_t bytes, int protection, int device = 0);
  // Calls visit(base, bytes, protection) for each mapping in the range; what any device may do.
  template <typename Visit>
  void each_mapping(uint64_t address, uint64_t bytes, Visit visit) const {
    const PhysicalMemory& keeper = *addresses_;
    std::lock_guard<std::mutex> lock(keeper.address_mutex_);
    for (auto it = keeper.mappings_.lower_bound(address);
         it != keeper.mappings_.end() && it->first < address + bytes; ++it) {
      visit(it->first, it->second.bytes, it->second.protection());
    }
  }

 private:
  // The key of an allocation is its place in the common file, or a number behind all places.
  struct Allocation {
    uint64_t bytes = 0;
    uint64_t name = 0;
    uint32_t references = 0;
    UniqueFd own;           // the file that it has been moved to, or that it came with
    bool in_common = true;  // holds its place in the common file
    bool counted = true;    // in the device's ledger
  };
  struct PhysicalMapping {
    uint64_t bytes = 0;
    uint64_t key = 0;
    PhysicalMemory* memory = nullptr;  // whose allocation it is
    std::array<uint8_t, kDevicesMax> access = {};
    int protection() const;  // what any device may do
  };

  PhysicalMemory(DeviceSegment* segment, PhysicalMemory* first, int identity)
      : segment_(segment), addresses_(first != nullptr ? first : this), identity_(identity) {}
  bool map_here(uint64_t address, uint64_t bytes, uint64_t key, PhysicalMemory* memory);
  // Where an allocation of `bytes` lies, with one reference more. False: there is none.
  bool refer(uint64_t key, uint64_t bytes, int* file, uint64_t* offset);
  bool inside_reservation(uint64_t address, uint64_t bytes) const;
  bool exactly_mapped(uint64_t address, uint64_t bytes) const;
  const PhysicalMapping* mapping_at(uint64_t address) const;
  void give_place(uint64_t offset, uint64_t bytes);
  bool move_to_own_file(uint64_t key, Allocation* allocation);

  DeviceSegment* const segment_;
  PhysicalMemory* const addresses_;  // who keeps the two maps at the end
  const int identity_;
  UniqueFd file_;
  mutable std::mutex mutex_;                      // taken after address_mutex_
  std::map<uint64_t, uint64_t> free_;             // offset -> bytes, never adjacent
  std::map<uint64_t, Allocation> allocations_;    // by key
  mutable std::mutex address_mutex_;              // and guards which file an allocation is in
  std::map<uint64_t, uint64_t> reservations_;     // address -> bytes
  std::map<uint64_t, PhysicalMapping> mappings_;  // by address
  uint64_t next_foreign_ = kCommonFileBytes;      // key of the next import
};

}  // namespace vgpu::softgpu
