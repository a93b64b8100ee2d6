// Device memory of one guest on all its devices.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_GUEST_MEMORY_H_
#define VGPU_SERVER_GUEST_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "server/device_memory.h"

namespace vgpu::server {

// Addresses mean the same on all devices. As thread-safe as DeviceMemory.
class GuestMemory {
 public:
  // The next device's, in the guest's order.
  void add(std::unique_ptr<DeviceMemory> memory) { devices_.push_back(std::move(memory)); }

  uint32_t devices() const { return static_cast<uint32_t>(devices_.size()); }
  // nullptr: the guest has no such device.
  DeviceMemory* on(uint32_t device) const {
    return device < devices() ? devices_[device].get() : nullptr;
  }
  // Whether all of a range is memory that this guest may copy to and from.
  bool owns(uint64_t address, uint64_t bytes) const { return device_of(address, bytes) >= 0; }
  // The device whose memory all of a range is; -1: it is not the guest's. Several devices may use
  // what the guest has mapped: then it is `preferred`'s, if that may, as work there needs no
  // detour.
  int device_of(uint64_t address, uint64_t bytes, uint32_t preferred = 0) const {
    if (preferred < devices() && devices_[preferred]->owns(address, bytes))
      return static_cast<int>(preferred);
    const auto found = std::find_if(devices_.begin(), devices_.end(),
                                    [&](const auto& each) { return each->owns(address, bytes); });
    return found == devices_.end() ? -1 : static_cast<int>(found - devices_.begin());
  }
  // Where the guest may map memory itself, whichever device has it; no bytes: nowhere.
  void set_range(const protocol::AddressRange& range) { range_ = range; }
  bool maps() const { return range_.bytes != 0; }
  // Addresses for such memory, whole handles. False: not the guest's to ask, or taken.
  bool claim(uint64_t address, uint64_t bytes) {
    return bytes != 0 && bytes <= range_.bytes && address >= range_.base &&
           address - range_.base <= range_.bytes - bytes && address % kHandleBytes == 0 &&
           bytes % kHandleBytes == 0 && claimed_.insert(address, bytes);
  }
  // The guest may no longer use them.
  void unclaim(uint64_t address, uint64_t bytes) {
    claimed_.erase(address, bytes);
    for (const auto& each : devices_) each->remove_global(address, bytes);
  }
  // The device of which DeviceMemory::linear() is true; -1: none.
  int device_of_linear(uint64_t address, uint64_t bytes) const {
    const auto found = std::find_if(devices_.begin(), devices_.end(),
                                    [&](const auto& each) { return each->linear(address, bytes); });
    return found == devices_.end() ? -1 : static_cast<int>(found - devices_.begin());
  }
  void make_shareable() {
    for (const auto& each : devices_) each->make_shareable();
  }
  // A variable's memory goes; whichever device it is on.
  void remove_global(uint64_t address, uint64_t bytes) {
    const int device = device_of(address, bytes);
    if (device >= 0) devices_[static_cast<size_t>(device)]->remove_global(address, bytes);
  }
  void release_all() {
    for (const auto& each : devices_) each->release_all();
  }

 private:
  std::vector<std::unique_ptr<DeviceMemory>> devices_;
  protocol::AddressRange range_;
  AddressSet claimed_;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_GUEST_MEMORY_H_
