// Host memory of the guest that the device can reach: blocks that come, are used, and go.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_HOST_BLOCKS_H_
#define VGPU_SERVER_HOST_BLOCKS_H_

#include <cstdint>
#include <mutex>

#include "driver_table.h"
#include "server/address_set.h"

namespace vgpu::server {

// Registering memory and taking it back may take a driver long, so helpers do both; meanwhile the
// addresses belong to nobody. Thread-safe.
class HostBlocks {
 public:
  // So many bytes at most, of all blocks. Before any.
  void bound(uint64_t bytes_max) { bytes_max_ = bytes_max; }
  // Whether so many bytes more may be taken.
  bool fits(uint64_t bytes) const {
    std::lock_guard lock(mutex_);
    return bytes <= bytes_max_ - (bytes_ < bytes_max_ ? bytes_ : bytes_max_);
  }
  // The addresses are taken from now on. False when some are already, or the range wraps.
  bool begin_map(uint64_t address, uint64_t bytes) {
    std::lock_guard lock(mutex_);
    if (!taken_.insert(address, bytes)) return false;
    blocks_[address] = bytes;
    bytes_ += bytes;
    return true;
  }
  // `usable`: copies may now name them; else they are free again.
  void end_map(uint64_t address, bool usable) {
    std::lock_guard lock(mutex_);
    auto block = blocks_.find(address);
    if (usable) {
      usable_.merge(address, block->second);
    } else {
      free(block);
    }
  }
  // The block at `address` may no longer be named. False when there is none that is usable.
  bool begin_unmap(uint64_t address, uint64_t* bytes) {
    std::lock_guard lock(mutex_);
    auto block = blocks_.find(address);
    if (block == blocks_.end() || !usable_.contains(address, block->second)) return false;
    *bytes = block->second;
    usable_.erase(address, block->second);
    return true;
  }
  void end_unmap(uint64_t address) {
    std::lock_guard lock(mutex_);
    free(blocks_.find(address));
  }
  // Whether all of a range may be named.
  bool contains(uint64_t address, uint64_t bytes) const {
    std::lock_guard lock(mutex_);
    return usable_.contains(address, bytes);
  }

  // For a session whose process goes on; home is current.
  void release_all(const DriverTable& driver) {
    std::lock_guard lock(mutex_);
    for (const auto& [address, bytes] : blocks_)
      (void)driver.cuMemHostUnregister(reinterpret_cast<void*>(address));
    blocks_.clear();
  }

 private:
  void free(std::map<uint64_t, uint64_t>::iterator block) {
    taken_.erase(block->first, block->second);
    bytes_ -= block->second;
    blocks_.erase(block);
  }

  mutable std::mutex mutex_;
  AddressSet taken_, usable_;
  uint64_t bytes_ = 0, bytes_max_ = UINT64_MAX;
  std::map<uint64_t, uint64_t> blocks_;  // address -> bytes, all that are taken
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_HOST_BLOCKS_H_
