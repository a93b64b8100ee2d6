// The memory pools of a process, each on a device: cuMemPool*, cuMemAllocAsync and cuMemFreeAsync.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_API_POOLS_STREAM_POOLS_H_
#define VGPU_API_POOLS_STREAM_POOLS_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <set>
#include <vector>

#include "api/pools/pool.h"
#include "base/slot_map.h"

namespace vgpu {

// Whether a device has pools for such memory: pinned memory of a device. Managed memory and memory
// of the host come from no pool here.
inline CUresult check_pool_kind(CUmemLocationType location, CUmemAllocationType type) {
  if (type == CU_MEM_ALLOCATION_TYPE_PINNED && location == CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_SUCCESS;
  const bool known =
      (type == CU_MEM_ALLOCATION_TYPE_PINNED || type > CU_MEM_ALLOCATION_TYPE_PINNED) &&
      type != CU_MEM_ALLOCATION_TYPE_MAX;
  const bool place =
      location > CU_MEM_LOCATION_TYPE_INVALID && location <= CU_MEM_LOCATION_TYPE_HOST_NUMA;
  return known && place ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

// Thread-safe. Pools go by minted ids; the default pool of a device is always there. Devices are
// numbered from 0 and the caller has checked the number, but where this says otherwise.
class StreamPools {
 public:
  static constexpr uint64_t kTag = 40;  // of the ids

  // `memories`: where the memory of pools of each device comes from; no device can be added later.
  // `imported`: the same of memory of other processes; what release() does there may wait.
  StreamPools(const std::vector<PoolMemory*>& memories, const std::vector<PoolMemory*>& imported);

  uint64_t default_pool(int device);
  uint64_t current(int device);
  // INVALID_VALUE for a pool of another device.
  CUresult set_current(int device, uint64_t pool);

  // As cuMemPoolCreate; the device is checked.
  CUresult create(const CUmemPoolProps* properties, uint64_t* pool);
  // *name: the one by which others had it.
  CUresult destroy(uint64_t pool, PoolName* name);
  CUresult get_attribute(uint64_t pool, CUmemPool_attribute which, void* value);
  CUresult set_attribute(uint64_t pool, CUmemPool_attribute which, const void* value);
  CUresult get_access(uint64_t pool, const CUmemLocation* location, CUmemAccess_flags* flags);
  CUresult set_access(uint64_t pool, const CUmemAccessDesc* descriptions, size_t count);
  // *device: the pool's.
  CUresult trim(uint64_t pool, uint64_t keep, int* device);

  // `pool` 0: the current one of the device.
  CUresult allocate(int device, uint64_t pool, uint64_t bytes, const StreamPlace& place,
                    uint64_t* address);
  // False when `address` is not where a block of a pool begins that is given out.
  bool free(uint64_t address, const StreamPlace& place);
  // The same, behind all work: as cuMemFree does it.
  bool free_now(uint64_t address);
  // The pool of the block that begins at `address` and is given out; 0: none.
  uint64_t pool_of(uint64_t address);

  // Sharing with other processes (shared_pools.cc). INVALID_VALUE: the pool was not made for that.
  // *name: as set_name() said, or none yet.
  CUresult check_export(uint64_t pool, int* device, PoolName* name);
  void set_name(uint64_t pool, const PoolName& name);
  // The pool that others may have and that has given out the block which begins at `address`.
  CUresult exported_from(uint64_t address, int* device, PoolName* name);
  // Another process' pool.
  CUresult import_pool(int device, const PoolName& name, uint64_t* pool);
  // INVALID_VALUE: that is not the imported pool of this name.
  CUresult check_import(uint64_t pool, const PoolName& name, int* device);
  // What was made of a block of it; it is freed as the pool's own. INVALID_VALUE: the pool is gone.
  CUresult adopt(uint64_t pool, uint64_t address, uint64_t bytes);

  // The application has waited for work: memory beyond the thresholds goes back.
  void synchronised() {
    // relaxed: what is missed goes back at the next wait.
    if (parked_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      release_unused();
  }
  // A stream has waited for an event that was recorded behind work `number` of another.
  void follow(const StreamPlace& waiter, uint64_t context, uint64_t recorded, uint64_t number);
  // Whether any pool was ever used; until then nobody needs to tell of waits.
  bool used() const { return used_.load(std::memory_order_relaxed); }
  // Others need memory of the device: whatever is kept there goes back. Whether anything did.
  bool give_back(int device);
  // The device starts afresh: all its memory goes back, also what is given out.
  void forget_memory(int device);

 private:
  struct Entry {
    int device = 0;
    Pool pool;
    uint64_t id = 0;
    std::set<int> peers;  // devices that were given access besides the pool's own
    bool exportable = false, imported = false;
    PoolName name;  // by which others have it, or this process another's
  };
  struct PerDevice {
    PoolMemory* memory = nullptr;
    PoolMemory* imported = nullptr;
    uint64_t default_id = 0, current = 0;
  };

  Entry* find(uint64_t pool);
  PerDevice& with_default(int device);
  Entry& add(int device);
  PoolMemory& memory_of(const Entry& entry) const {
    const PerDevice& device = devices_[static_cast<size_t>(entry.device)];
    return entry.imported ? *device.imported : *device.memory;
  }
  bool has_device(int device) const {
    return device >= 0 && static_cast<size_t>(device) < devices_.size();
  }
  Entry* owner(uint64_t address);
  CUresult set_peers(Entry& entry, std::set<int> peers);
  void release_unused();
  void count_parked();
  bool give_back_locked(int device);
  void drop_done();

  std::mutex mutex_;
  std::vector<PerDevice> devices_;
  SlotMap<Entry*, kTag> ids_;
  std::list<Entry> pools_;  // also those that are destroyed and have blocks yet
  StreamOrder order_;
  std::atomic<uint64_t> parked_{0};
  std::atomic<bool> used_{false};
};

}  // namespace vgpu

#endif  // VGPU_API_POOLS_STREAM_POOLS_H_
