// Resources of SMs and green contexts that a guest has named.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_GREEN_H_
#define VGPU_SERVER_GREEN_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu::server {

// What a guest may have named and made; one more is OUT_OF_MEMORY. A program gives no resource
// back, and splits a device a few times.
inline constexpr size_t kSmResourcesMax = 4096, kGreensMax = 256;
// Resources that one green context is made of, and groups that one split makes.
inline constexpr uint32_t kGreenResourcesMax = 512;

struct Green {
  CUgreenCtx handle = nullptr;
  uint32_t device = 0;    // the guest's number of it
  uint64_t resource = 0;  // of all its SMs, among SmResources
};

// The driver's own resources under numbers: what is inside of them is the driver's, and a guest
// must not choose it. Thread-safe.
class SmResources {
 public:
  struct Entry {
    CUdevResource resource;
    uint32_t device;
  };
  // Numbers from the answer on; 0 when there are too many.
  uint64_t add(const std::vector<CUdevResource>& resources, uint32_t device) {
    std::lock_guard lock(mutex_);
    if (entries_.size() + resources.size() > kSmResourcesMax) return 0;
    const uint64_t first = next_;
    for (const CUdevResource& each : resources) entries_[next_++] = {each, device};
    return first;
  }
  bool find(uint64_t number, Entry* entry) {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(number);
    if (found == entries_.end()) return false;
    *entry = found->second;
    return true;
  }
  void remove(uint64_t number) {
    std::lock_guard lock(mutex_);
    entries_.erase(number);
  }

 private:
  std::mutex mutex_;
  uint64_t next_ = 1;
  std::map<uint64_t, Entry> entries_;
};

// By the guest's numbers. Thread-safe.
class Greens {
 public:
  // False when the number is taken, or there are too many.
  bool add(uint64_t number, const Green& green) {
    std::lock_guard lock(mutex_);
    return number != 0 && greens_.size() < kGreensMax && greens_.emplace(number, green).second;
  }
  // A handle of null: it is being made.
  bool find(uint64_t number, Green* green) {
    std::lock_guard lock(mutex_);
    const auto found = greens_.find(number);
    if (found == greens_.end()) return false;
    *green = found->second;
    return true;
  }
  void set(uint64_t number, const Green& green) {
    std::lock_guard lock(mutex_);
    greens_[number] = green;
  }
  void remove(uint64_t number) {
    std::lock_guard lock(mutex_);
    greens_.erase(number);
  }
  // Those of a device, taken out.
  std::vector<Green> take_of(uint32_t device) {
    std::lock_guard lock(mutex_);
    std::vector<Green> taken;
    std::erase_if(greens_, [&](const auto& each) {
      if (each.second.device != device || each.second.handle == nullptr) return false;
      taken.push_back(each.second);
      return true;
    });
    return taken;
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, Green> greens_;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_GREEN_H_
