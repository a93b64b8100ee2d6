// Memory of other processes that this one has opened: how often, and under which address. The same
// for guests and for the software GPU.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_API_IPC_OPENED_MEMORY_H_
#define VGPU_API_IPC_OPENED_MEMORY_H_

#include <cstdint>
#include <map>
#include <mutex>

namespace vgpu {

// What a handle names, and the context that has it open where each context has mappings of its own.
struct PeerName {
  uint64_t secret_low = 0, secret_high = 0, offset = 0, context = 0;
  bool operator==(const PeerName&) const = default;
};

// Not thread-safe but for `calls`, which is held from the first look to the last change of a call.
class OpenedMemory {
 public:
  std::mutex calls;

  // The address at which the name is open already, once more; 0: it is not.
  uint64_t reopen(const PeerName& name) {
    for (auto& [address, each] : opened_) {
      if (each.name != name) continue;
      ++each.count;
      return address;
    }
    return 0;
  }
  // It is not open any more, whoever closed it.
  void forget(uint64_t address) { opened_.erase(address); }
  void add(uint64_t address, const PeerName& name) { opened_[address] = {name, 1}; }
  enum class Close { kUnknown, kStillOpen, kLast };
  Close close(uint64_t address) {
    const auto found = opened_.find(address);
    if (found == opened_.end()) return Close::kUnknown;
    if (--found->second.count != 0) return Close::kStillOpen;
    opened_.erase(found);
    return Close::kLast;
  }

 private:
  struct Opened {
    PeerName name;
    uint64_t count = 0;
  };
  std::map<uint64_t, Opened> opened_;  // by address
};

}  // namespace vgpu

#endif  // VGPU_API_IPC_OPENED_MEMORY_H_
