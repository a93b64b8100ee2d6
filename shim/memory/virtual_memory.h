// Addresses that the application reserves, physical memory that it creates, and what it has mapped
// where: cuMemAddressReserve, cuMemCreate, cuMemMap and their kin.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_MEMORY_VIRTUAL_MEMORY_H_
#define VGPU_SHIM_MEMORY_VIRTUAL_MEMORY_H_

#include <cuda.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/slot_map.h"
#include "protocol/limits.h"
#include "shim/memory/free_ranges.h"

namespace vgpu::shim {

inline constexpr uint64_t kPhysicalTag = 41;

// What each device may do, by the guest's numbers.
using DeviceAccess = std::array<CUmemAccess_flags, protocol::kDevicesMax>;

// What is at an address.
struct VirtualPlace {
  uint64_t reserved_base = 0, reserved_bytes = 0;
  uint64_t base = 0, bytes = 0;  // of the mapping; no bytes: none
  uint64_t handle = 0, handle_types = 0;
  int device = 0;  // that has the memory
  DeviceAccess flags{};
};

// Thread-safe bookkeeping for all devices; it asks nobody. Calls answer as the driver's do.
class VirtualMemory {
 public:
  // What of the guest's range is for the application to reserve; no bytes: none.
  VirtualMemory(uint64_t base, uint64_t bytes) : base_(base), bytes_(bytes), free_(base, bytes) {}
  bool served() const { return bytes_ != 0; }
  bool inside(uint64_t address) const { return address - base_ < bytes_; }

  // Held by whoever changes something here and tells the worker, so that both see one order.
  std::mutex calls;

  // Arguments have been checked.
  CUresult reserve(uint64_t bytes, uint64_t alignment, uint64_t hint, uint64_t* address);
  CUresult unreserve(uint64_t address, uint64_t bytes);

  // A name for memory that is about to be created or imported; 0: no more names. `export_name`:
  // what this process has exported under that (set_export_name()) is there already and counts once.
  uint64_t add(uint64_t bytes, uint64_t handle_types, int device = 0, uint64_t export_name = 0);
  void set_export_name(uint64_t handle, uint64_t export_name);
  // It could not be had.
  void forget(uint64_t handle);
  // One reference less. *gone: it was the last, and nothing is mapped: the memory goes.
  CUresult release(uint64_t handle, bool* gone);
  // One reference more, to what is mapped at `address`.
  CUresult retain(uint64_t address, uint64_t* handle);
  CUresult handle_types(uint64_t handle, uint64_t* types, int* device = nullptr);

  CUresult map(uint64_t address, uint64_t bytes, uint64_t handle);
  size_t mapping_count() const {
    std::lock_guard lock(mutex_);
    return mappings_.size();
  }
  // Whether whole mappings fill the range.
  bool exactly_mapped(uint64_t address, uint64_t bytes);
  // The handles whose last use that was.
  std::vector<uint64_t> unmap(uint64_t address, uint64_t bytes);
  void set_access(uint64_t address, uint64_t bytes, CUmemAccess_flags flags, int device = 0);
  // The end of all access.
  void close(uint64_t address, uint64_t bytes);
  // Whether all devices whose memory is mapped in the range satisfy may(device).
  template <typename May>
  bool all_owners(uint64_t address, uint64_t bytes, May may) {
    std::lock_guard lock(mutex_);
    for (auto it = mappings_.lower_bound(address);
         it != mappings_.end() && it->first < address + bytes; ++it) {
      if (!may(physical_.find(it->second.handle)->device)) return false;
    }
    return true;
  }
  // False: nothing is reserved there.
  bool look(uint64_t address, VirtualPlace* place);

  // The memory around `address` that some device may read and write: mappings side by side are
  // one as far as it may.
  struct Found {
    uint64_t address = 0, bytes = 0, id = 0, context = 0;
    int device = 0;  // of the first of them
  };
  bool find(uint64_t address, Found* found);
  // Addresses for memory of another process; 0: no room. They are known once it is mapped there:
  // `size` bytes from `offset` on are to be used, by the context that opened it.
  uint64_t reserve_for_peer(uint64_t bytes);
  void give_up_for_peer(uint64_t address, uint64_t bytes);
  void add_peer(uint64_t address, uint64_t bytes, uint64_t offset, uint64_t size, uint64_t context,
                int device = 0);
  // Nobody is to use it any more.
  void hide_peer(uint64_t visible);
  // Of what begins at `visible`, as add_peer() knew it. False: nothing does.
  bool remove_peer(uint64_t visible, uint64_t* address, uint64_t* bytes);
  // Where all begins that a context has opened.
  std::vector<uint64_t> peers_of(uint64_t context);

  // How many handles there are.
  uint64_t count() const {
    std::lock_guard lock(mutex_);
    return physical_.size();
  }
  // Sum of all that was created on a device.
  uint64_t created(int device = 0) {
    std::lock_guard lock(mutex_);
    return created_[static_cast<size_t>(device)];
  }

 private:
  // Memory counts from its first handle to its last.
  struct Counted {
    Counted(uint64_t& sum, uint64_t bytes) : total(sum), size(bytes) { total += size; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    ~Counted() { total -= size; }
    uint64_t& total;
    const uint64_t size;
  };
  struct Physical {
    uint64_t bytes = 0, handle_types = 0;
    uint64_t export_name = 0;
    std::shared_ptr<Counted> counted;
    uint32_t references = 1, mappings = 0;
    int device = 0;
  };
  struct Mapped {
    uint64_t bytes = 0, handle = 0;
    DeviceAccess flags{};
  };
  using Mappings = std::map<uint64_t, Mapped>;
  struct Peer {
    uint64_t address = 0, bytes = 0;  // all of it
    uint64_t size = 0;                // of what is to be used
    uint64_t context = 0;
    int device = 0;
  };

  Mappings::iterator at(uint64_t address);
  bool drop_if_unused(uint64_t handle);
  void drop(uint64_t handle);
  uint64_t& created_on(int device) { return created_[static_cast<size_t>(device)]; }

  const uint64_t base_, bytes_;
  mutable std::mutex mutex_;
  FreeRanges free_;
  std::map<uint64_t, uint64_t> reservations_;  // address -> bytes
  SlotMap<Physical, kPhysicalTag> physical_;
  Mappings mappings_;
  std::map<uint64_t, Peer> peers_;  // by where what is to be used begins
  std::array<uint64_t, protocol::kDevicesMax> created_{};
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_MEMORY_VIRTUAL_MEMORY_H_
