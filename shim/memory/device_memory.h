// The guest's device memory: addresses are chosen here, the worker only backs them.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_MEMORY_DEVICE_MEMORY_H_
#define VGPU_SHIM_MEMORY_DEVICE_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/spin_mutex.h"
#include "shim/memory/address_index.h"
#include "shim/memory/block_pool.h"
#include "shim/memory/free_lists.h"
#include "shim/memory/virtual_memory.h"

namespace vgpu::shim {

// What the allocator asks of the channel. Calls marked "waits" are made without the allocator's
// lock.
class MemoryPort {
 public:
  virtual ~MemoryPort() = default;
  // Bytes of memory that the worker has ready or has given already, counted from the start of the
  // session.
  virtual uint64_t credit() = 0;
  // Asks until credit() reaches `total`; waits. OUT_OF_MEMORY when the grant does not reach.
  virtual CUresult request_credit(uint64_t total) = 0;
  // Backs [address, address + bytes) out of the credit; does not wait.
  virtual void map(uint64_t address, uint64_t bytes) = 0;
  // Takes the backing of [address, address + bytes) away, which no work uses; waits.
  virtual CUresult unmap(uint64_t address, uint64_t bytes) = 0;
  // Gives so much credit back that was never mapped.
  virtual void return_credit(uint64_t bytes) = 0;
  // Mode B: memory at an address of the driver's choice; waits. The range is this process's alone.
  virtual CUresult lend(uint64_t bytes, uint64_t* address, uint64_t* lent) = 0;
  // All of what lend() gave; waits.
  virtual CUresult take_back(uint64_t address, uint64_t lent) = 0;
  // Mode C: one cuMemAlloc or cuMemFree of the driver. Both wait, but a release only when asked to.
  virtual CUresult allocate(uint64_t bytes, uint64_t* address) = 0;
  virtual CUresult release(uint64_t address, bool waits) = 0;
  // Waits until all releases that did not wait are done.
  virtual void finish_releases() = 0;
  // The allocation of this id, which share() has marked, is about to be freed; does not wait.
  virtual void unshare(uint64_t id) = 0;
  // The caller gets no memory; does not wait.
  virtual void refused() {}
  // Nothing was submitted since all work was last known to be past.
  virtual bool idle() = 0;
  // What may be had of the device now; `granted`: when the session began.
  virtual uint64_t quota(uint64_t granted) { return granted; }
  // What is counted against that beside this allocator.
  virtual uint64_t used_beside() { return 0; }
  // Number that retired() reaches when all work submitted so far is past; does not wait.
  virtual uint64_t fence() = 0;
  virtual uint64_t retired() = 0;
  // Waits until retired() >= number; false when the session is over.
  virtual bool wait_retired(uint64_t number) = 0;
};

enum class MemoryMode : uint8_t { kMapped = 0, kLent = 1, kForwarded = 2 };

// A live allocation as the caller knows it.
struct Allocation {
  uint64_t address = 0, bytes = 0, id = 0, context = 0;
  int device = 0;  // the guest's number of it
};

// Thread-safe. One per device.
//
// Blocks of 2 MiB and more are cut from spans of backed memory in steps of 2 MiB; smaller ones in
// steps of 512 bytes from 2 MiB chunks. A freed block returns to its free list as soon as the work
// that may touch it is past; its backing goes back only when it is wanted elsewhere.
class DeviceMemory {
 public:
  struct Options {
    MemoryMode mode = MemoryMode::kMapped;
    uint64_t base = 0, bytes = 0;  // kMapped: the claimed range
    uint64_t grant = 0;            // what this guest may have
    int device = 0;                // the guest's number of it
  };
  DeviceMemory(MemoryPort& port, const Options& options);
  Status open() { return index_.open(); }

  // As cuMemAlloc: INVALID_VALUE for 0 bytes, OUT_OF_MEMORY when nothing fits.
  CUresult allocate(uint64_t bytes, uint64_t context, uint64_t* address) {
    return counted(allocate(bytes, context, false, address));
  }
  // As cuMemFree: INVALID_VALUE unless `address` is where a live allocation begins. Never waits in
  // modes A and B; in mode C for the driver's cuMemFree, unless `waits` is false.
  CUresult free(uint64_t address, bool waits = true);
  // Where find() looks for what is not of this allocator. Before any other call.
  void look_also_in(VirtualMemory* memory) { virtual_memory_ = memory; }
  // The live allocation that holds `address`.
  bool find(uint64_t address, Allocation* allocation);
  // The allocation that holds `address`, of which others will have the memory too: when it is freed
  // its memory goes, so that they never see what comes after. Small ones take the 2 MiB around them
  // with them, as natively. `pooled`: a block of a pool. INVALID_VALUE: no such allocation;
  // NOT_SUPPORTED: not mode A.
  CUresult share(uint64_t address, Allocation* allocation, bool pooled = false);
  bool can_share(uint64_t address);
  // Blocks of memory pools: no context's, and unknown to free().
  CUresult allocate_pooled(uint64_t bytes, uint64_t* address) {
    return counted(allocate(bytes, 0, true, address));
  }
  // Whether share() has marked the block, which then waits for all work when it goes.
  bool pooled_shared(uint64_t address);
  // `past`: no work uses the block any more.
  CUresult free_pooled(uint64_t address, bool past);
  // The first `bytes` of a large block stay, the rest becomes a block of its own. False in mode C.
  bool split_pooled(uint64_t address, uint64_t bytes);
  // The caller may use so much of the block; with 0 find() does not know it, nor can others get it.
  void show_pooled(uint64_t address, uint64_t requested);
  // Every block of a context that ends.
  void free_all_of(uint64_t context);

  // Gives the backing of free memory back, `bytes` or as much as there is, and unused credit too,
  // so that the worker can use the quota otherwise; waits for work that may still use freed blocks.
  // Whether anything went.
  bool reclaim(uint64_t bytes);
  // The same for whatever is free now, without waiting for any work.
  void give_back_free();

  // Memory of the driver's own placing (module globals), so that find() knows it.
  void add_foreign(uint64_t address, uint64_t bytes, uint64_t context);
  void remove_foreign(uint64_t address);

  // What this guest may have now; an operator may change that.
  uint64_t total() const { return port_.quota(options_.grant); }
  uint64_t used();

 private:
  CUresult allocate(uint64_t bytes, uint64_t context, bool pooled, uint64_t* address);
  CUresult counted(CUresult result) {
    if (result == CUDA_ERROR_OUT_OF_MEMORY) [[unlikely]]
      port_.refused();
    return result;
  }
  bool over_lowered_quota(uint64_t bytes);
  // What the quota has beyond what is backed.
  uint64_t unmapped() const {
    const uint64_t quota = total();
    return quota - (mapped_ < quota ? mapped_ : quota);
  }
  BlockIndex find_pooled(uint64_t address);
  struct Batch {  // blocks freed together, oldest first
    BlockIndex head = kNoBlock, tail = kNoBlock;
    uint64_t fence = 0;  // 0: not written yet
    uint64_t bytes = 0;
    uint32_t count = 0;
  };
  enum class Step : uint8_t { kDone, kRetry, kExhausted };

  BlockIndex take(uint64_t bytes, bool small);
  BlockIndex take_small(uint64_t bytes);
  BlockIndex take_large(uint64_t bytes);
  void split(BlockIndex index, uint64_t bytes);
  void release(BlockIndex index);
  void release_large(BlockIndex index);
  void release_small(BlockIndex index);
  bool return_chunk();
  Step make_room(uint64_t bytes);
  Step grow_mapped(uint64_t bytes);
  uint64_t find_hole(uint64_t bytes) const;
  void fill_hole(uint64_t address, uint64_t bytes);
  bool wait_for_pending();
  bool give_back(uint64_t bytes);
  bool give_back_mapped(uint64_t bytes);
  bool give_back_lent(uint64_t bytes);
  void drop_backing(BlockIndex index);
  void unlink(BlockIndex index);
  Step grow_lent(uint64_t bytes);
  void add_span(uint64_t address, uint64_t bytes);
  void queue_pending(BlockIndex index);
  void close_batch();
  void drain();
  void retire_live(BlockIndex index, bool past = false);
  BlockIndex find_shareable(uint64_t address, bool pooled) const;
  CUresult free_shared(BlockIndex index);
  // Unique among all devices.
  uint64_t id_of(const Block& block) const {
    return static_cast<uint64_t>(options_.device) << 48 | block.id;
  }
  void count_live(Block& block, bool born);
  CUresult allocate_forwarded(uint64_t bytes, uint64_t context, bool pooled, uint64_t* address);
  void adopt(uint64_t address, uint64_t bytes, uint64_t context);
  BlockIndex find_foreign(uint64_t address) const;
  BlockIndex disown(uint64_t address);

  MemoryPort& port_;
  VirtualMemory* virtual_memory_ = nullptr;
  const Options options_;
  SpinMutex mutex_;
  BlockPool pool_;
  AddressIndex index_;
  FreeLists small_free_{pool_, kUnitShift};
  FreeLists large_free_{pool_, kChunkShift};
  std::deque<Batch> pending_;
  std::deque<BlockIndex>
      foreign_;  // blocks that the driver placed (mode C, globals); few, searched linearly
  bool releasing_ = false;              // mode C: some releases may not be done yet
  BlockIndex tail_ = kNoBlock;          // last block of the span that ends at the frontier
  uint64_t frontier_ = 0;               // first address of the range that was never backed
  uint64_t mapped_ = 0;                 // bytes backed
  uint64_t ever_mapped_ = 0;            // bytes of credit used so far
  std::map<uint64_t, uint64_t> holes_;  // below the frontier, no longer backed; never adjacent
  struct Slab {
    uint64_t address, lent;  // as the driver gave it
    uint64_t begin, end;     // what is used of it
  };
  std::vector<Slab> slabs_;  // mode B
  uint64_t used_ = 0;        // what cuMemGetInfo counts as taken
  uint64_t next_id_ = 0;
  uint32_t empty_chunks_ = 0;  // chunks without any block, kept for the next small one
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_MEMORY_DEVICE_MEMORY_H_
