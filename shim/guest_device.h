// One of the guest's devices: its memory and what the worker was told of it. And the memory of all
// of them together. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_GUEST_DEVICE_H_
#define VGPU_SHIM_GUEST_DEVICE_H_

#include <cuda.h>

#include <atomic>
#include <deque>

#include "protocol/session/messages.h"
#include "shim/memory/device_memory.h"

namespace vgpu::shim {

class Session;
struct Context;

// Thread-safe, but for what says otherwise.
class GuestDevice final : private MemoryPort {
 public:
  // Device `number` of those that the handshake has granted.
  GuestDevice(Session& session, const protocol::HelloReply& hello, uint32_t number);

  CUdevice number() const { return static_cast<CUdevice>(number_); }
  DeviceMemory& memory() { return memory_; }
  // Under ContextTable::primary_lives. Has the worker make it ready for contexts, unless it is;
  // waits then. The first device is from the start.
  CUresult open();
  // Under the same: the worker has closed it.
  void closed() { open_ = false; }
  // Other devices may use its memory, or may no longer: counted by the worker; waits.
  CUresult share(uint32_t peer, bool on);
  // Nobody can have the allocation of this id any more under the name that was given.
  void forget_name(uint64_t id);
  // Whether all that was submitted is known to be past.
  bool all_past() { return idle(); }
  // Waits until the worker is through with modules that had variables. False: there are none.
  bool finish_unloads();
  // Bytes of modules' variables; modules add theirs.
  std::atomic<uint64_t>* variables() { return &variables_; }
  // Of the quota, but not out of memory(): arrays, what the guest maps itself, variables.
  uint64_t used_beside() override;

 private:
  // MemoryPort
  uint64_t credit() override;
  CUresult request_credit(uint64_t total) override;
  void map(uint64_t address, uint64_t bytes) override;
  CUresult unmap(uint64_t address, uint64_t bytes) override;
  void return_credit(uint64_t bytes) override;
  CUresult lend(uint64_t bytes, uint64_t* address, uint64_t* lent) override;
  CUresult take_back(uint64_t address, uint64_t lent) override;
  CUresult allocate(uint64_t bytes, uint64_t* address) override;
  CUresult release(uint64_t address, bool waits) override;
  void finish_releases() override;
  void unshare(uint64_t id) override { forget_name(id); }
  void refused() override;
  bool idle() override;
  uint64_t quota(uint64_t granted) override;
  uint64_t fence() override;
  uint64_t retired() override;
  bool wait_retired(uint64_t number) override;

  Session& session_;
  const uint32_t number_;
  bool open_;
  std::atomic<uint64_t> variables_{0};
  std::atomic<uint64_t> mapped_{0};  // bytes of all MemMap and CreditReturn records
  DeviceMemory memory_;
};

// Addresses mean the same on all devices, so what is asked about one is asked of each.
class GuestMemory {
 public:
  explicit GuestMemory(std::deque<GuestDevice>& devices) : devices_(devices) {}

  // The live allocation that holds `address`.
  bool find(uint64_t address, Allocation* allocation);
  // As DeviceMemory::free, whichever device has the allocation.
  CUresult free(uint64_t address, bool waits = true);
  void free_all_of(uint64_t context);
  void remove_foreign(uint64_t address);
  // As DeviceMemory::share and can_share, whichever device has the allocation.
  CUresult share(uint64_t address, Allocation* allocation, bool pooled = false);
  bool can_share(uint64_t address);
  // The device that has the allocation that holds `address`; -1: none.
  int device_of(uint64_t address);

 private:
  std::deque<GuestDevice>& devices_;
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_GUEST_DEVICE_H_
