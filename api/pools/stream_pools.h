// The memory pools of one device: cuMemPool*, cuMemAllocAsync and cuMemFreeAsync.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_API_POOLS_STREAM_POOLS_H_
#define VGPU_API_POOLS_STREAM_POOLS_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>

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

// Thread-safe. Pools go by minted ids; the default pool is always there.
class StreamPools {
 public:
  static constexpr uint64_t kTag = 40;  // of the ids

  explicit StreamPools(PoolMemory& memory) : memory_(memory) {}

  uint64_t default_pool();
  uint64_t current();
  CUresult set_current(uint64_t pool);

  // As cuMemPoolCreate for pools of this device.
  CUresult create(const CUmemPoolProps* properties, uint64_t* pool);
  CUresult destroy(uint64_t pool);
  CUresult get_attribute(uint64_t pool, CUmemPool_attribute which, void* value);
  CUresult set_attribute(uint64_t pool, CUmemPool_attribute which, const void* value);
  CUresult get_access(uint64_t pool, const CUmemLocation* location, CUmemAccess_flags* flags);
  CUresult set_access(uint64_t pool, const CUmemAccessDesc* descriptions, size_t count);
  CUresult trim(uint64_t pool, uint64_t keep);

  // `pool` 0: the current one.
  CUresult allocate(uint64_t pool, uint64_t bytes, const StreamPlace& place, uint64_t* address);
  // False when `address` is not where a block of a pool begins that is given out.
  bool free(uint64_t address, const StreamPlace& place);
  // The same, behind all work: as cuMemFree does it.
  bool free_now(uint64_t address);
  // The pool of the block that begins at `address` and is given out; 0: none.
  uint64_t pool_of(uint64_t address);

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
  // Others need memory: whatever is kept goes back. Whether anything did.
  bool give_back();
  // The device starts afresh: all memory goes back, also what is given out.
  void forget_memory();

 private:
  struct Entry {
    Pool pool;
    uint64_t id = 0;
  };

  Entry* find(uint64_t pool);
  uint64_t default_locked();
  Entry* owner(uint64_t address);
  void release_unused();
  void count_parked();
  bool give_back_locked();
  void drop_done();

  PoolMemory& memory_;
  std::mutex mutex_;
  SlotMap<Entry*, kTag> ids_;
  std::list<Entry> pools_;  // also those that are destroyed and have blocks yet
  uint64_t default_ = 0, current_ = 0;
  StreamOrder order_;
  std::atomic<uint64_t> parked_{0};
  std::atomic<bool> used_{false};
};

}  // namespace vgpu

#endif  // VGPU_API_POOLS_STREAM_POOLS_H_
