// Device memory of one guest: its quota, handles created ahead, and which addresses are its own.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_DEVICE_MEMORY_H_
#define VGPU_SERVER_DEVICE_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "driver_table.h"
#include "protocol/session/messages.h"
#include "server/address_set.h"
#include "server/figures.h"
#include "server/quota.h"

namespace vgpu::server {

// Of every handle: what any free block of the guest's can give back (docs/decisions/0021).
inline constexpr uint64_t kHandleBytes = 2u << 20;
// Credit that is kept ready beyond what the guest has mapped, as far as its quota reaches.
inline constexpr uint64_t kCreditAheadBytes = 64u << 20;

// Not thread-safe: the consumer. The memory goes back to the driver when the process ends, or with
// release_all().
class DeviceMemory {
 public:
  DeviceMemory(const DriverTable* driver, CUdevice device, uint64_t quota_bytes,
               protocol::AllocatorMode mode, protocol::AddressRange range)
      : driver_(driver), device_(device), quota_(quota_bytes), mode_(mode), range_(range) {}

  protocol::AllocatorMode mode() const { return mode_; }
  const Quota& quota() const { return quota_; }
  // Thread-safe. Takes nothing away when that is less than is used.
  void set_quota(uint64_t bytes) { quota_.set_limit(bytes); }
  // Bytes ever backed, which the guest sees as its credit.
  uint64_t backed_bytes() const { return backed_bytes_; }

  // Creates handles until at least `bytes` more than mapped are backed. CUDA_ERROR_OUT_OF_MEMORY
  // when the quota does not reach that far; then nothing has changed.
  CUresult back(uint64_t bytes);
  // Backs `bytes` more than now, or as many as the quota still has. CUDA_ERROR_OUT_OF_MEMORY when
  // `bytes` is more than the whole quota.
  CUresult back_more(uint64_t bytes);
  // Tops credit up to kCreditAheadBytes; quietly less near the quota. True when there is more now.
  bool back_ahead();

  // Maps credit at [address, address + bytes), whole handles inside the range, and makes it
  // accessible. CUDA_ERROR_INVALID_ADDRESS_SPACE: the guest asks for what is not its to ask.
  CUresult map(uint64_t address, uint64_t bytes);

  // Another device of the driver's may use what map() maps, or may no longer. Counted: every `true`
  // has its `false`. Memory of allocate() goes by contexts.
  CUresult share(CUdevice peer, bool on);

  // The guest may no longer use [address, address + bytes), which map() has mapped. The caller
  // unmaps it and says so with give_back(), but for the bytes of *shared, which it lets go of then:
  // others have been given those. False: not mapped, or no whole handles.
  bool release(uint64_t address, uint64_t bytes, Charges* shared);
  // What others are about to be given of [address, address + bytes), which is linear(). Whoever has
  // the memory holds these.
  Charges share_charges(uint64_t address, uint64_t bytes);
  // Gives back handles that were never mapped. False: there is not so much credit. Until the guest
  // asks for credit no more is made ahead.
  bool return_credit(uint64_t bytes);

  // Memory where the driver puts it (slabs lent, or single allocations), within the quota.
  CUresult allocate(uint64_t bytes, CUdeviceptr* address);
  // The guest may no longer use what allocate() gave at `address`; the caller frees it and says so
  // with give_back(). False when it is not of allocate().
  bool disown(CUdeviceptr address, uint64_t* bytes);
  // Thread-safe: so many bytes, disowned or charged, are the driver's again. Published at once,
  // counted against the quota when memory is asked for next.
  void give_back(uint64_t bytes) {
    given_back_->fetch_add(bytes, std::memory_order_release);
    publish_used();
  }

  // Memory that is not of map() or allocate() (arrays, what the guest maps itself), within the
  // quota. False, and nothing is taken, when the quota does not reach that far. What was made is
  // given back once it is destroyed.
  bool charge(uint64_t bytes);
  // Nothing was made.
  void discharge(uint64_t bytes);
  // The same for memory that several may hold; null: the quota does not reach that far.
  // Thread-safe.
  std::shared_ptr<Charge> charge_shared(uint64_t bytes);

  // Memory of a module, which the driver placed, or that the guest has mapped itself; not counted.
  void add_global(uint64_t address, uint64_t bytes) { owned_.merge(address, bytes); }
  void remove_global(uint64_t address, uint64_t bytes) { owned_.erase(address, bytes); }
  // Whether all of a range is memory that this guest may copy to and from.
  bool owns(uint64_t address, uint64_t bytes) const { return owned_.contains(address, bytes); }

  void release_all();
  // Handles are made so that other workers can be given them. Before any is.
  void make_shareable() { shareable_ = true; }
  // Whether map() has mapped all of [address, address + bytes), whole handles.
  bool linear(uint64_t address, uint64_t bytes) const {
    return in_range(address, bytes) && mapped_.contains(address, bytes);
  }
  // Where charge() counts what it refuses. May be null.
  void count_refusals_in(Figures* figures) { figures_ = figures; }
  // Where used bytes are published, for the listing of guests. May be null.
  void publish_to(std::atomic<uint64_t>* used) { used_ = used; }

 private:
  using Handle = CUmemGenericAllocationHandle;
  CUresult create();
  bool in_range(uint64_t address, uint64_t bytes) const;
  CUresult map_handles(uint64_t address, uint64_t bytes);
  CUresult set_access(uint64_t address, uint64_t bytes);
  void collect();  // what was given back since
  void publish_used();

  const DriverTable* driver_;
  CUdevice device_;
  Quota quota_;
  protocol::AllocatorMode mode_;
  protocol::AddressRange range_;
  std::vector<Handle> handles_;  // backed and not mapped
  uint64_t backed_bytes_ = 0;
  uint64_t mapped_bytes_ = 0;                         // bytes of credit used so far
  AddressSet mapped_;                                 // what map() has mapped
  std::vector<std::pair<CUdevice, uint32_t>> peers_;  // with how often each was given access
  bool ahead_ = true;                                 // back_ahead() has a say
  bool shareable_ = false;
  AddressSet owned_;
  std::map<uint64_t, std::shared_ptr<Charge>>
      shared_;  // handles of map() that others have, by address
  const Charge::Returns given_back_ = std::make_shared<std::atomic<uint64_t>>(0);
  std::map<CUdeviceptr, uint64_t> allocations_;
  std::mutex publishing_;
  std::atomic<uint64_t>* used_ = nullptr;
  Figures* figures_ = nullptr;
};

// Properties of every handle: pinned memory of one device (the driver's number). `shares`: other
// workers can be given it.
CUmemAllocationProp memory_properties(CUdevice device, bool shares = false);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_DEVICE_MEMORY_H_
