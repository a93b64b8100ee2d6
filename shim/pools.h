// The guest's memory pools, on all its devices: their memory is cut from the guest's own, without
// asking the worker.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_POOLS_H_
#define VGPU_SHIM_POOLS_H_

#include <deque>
#include <vector>

#include "api/pools/stream_pools.h"
#include "shim/guest_device.h"
#include "shim/objects.h"

namespace vgpu::shim {

class Session;
struct StreamRef;

// Thread-safe.
class GuestPools {
 public:
  GuestPools(std::deque<GuestDevice>& devices, Session& session);

  StreamPools* operator->() { return &pools_; }
  // Where work in `stream` of `context` stands.
  static StreamPlace place(const Context& context, const StreamRef& stream);
  // The stream waits for an event of context `of`, recorded as it was when the wait was written.
  void note_wait(const Context& context, const StreamRef& stream, const Context& of,
                 const Event::Record& record);

 private:
  // Memory of one device, as PoolMemory wants it.
  class Memory : public PoolMemory {
   public:
    Memory(GuestDevice& device, Session& session) : device_(device), session_(session) {}
    CUresult allocate(uint64_t bytes, uint64_t requested, uint64_t* address) override;
    void release(uint64_t address, const StreamPlace& place, bool past) override;
    bool split(uint64_t address, uint64_t bytes) override;
    void show(uint64_t address, uint64_t requested) override;
    CUresult share(int peer, bool on) override;
    bool past(const StreamPlace& place) override;
    bool releasable(uint64_t address, const StreamPlace& place) override;
    bool exports() override;

   protected:
    GuestDevice& device_;
    Session& session_;
  };
  // Blocks of other guests' pools, mapped here. They are unmapped behind all work.
  class ImportedMemory final : public Memory {
   public:
    using Memory::Memory;
    CUresult allocate(uint64_t, uint64_t, uint64_t*) override { return CUDA_ERROR_INVALID_VALUE; }
    void release(uint64_t address, const StreamPlace& place, bool past) override;
    bool split(uint64_t, uint64_t) override { return false; }
    void show(uint64_t address, uint64_t requested) override;
    CUresult share(int, bool on) override { return on ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS; }
    bool releasable(uint64_t, const StreamPlace&) override { return device_.all_past(); }
  };
  template <typename Kind>
  std::vector<PoolMemory*> all_memories(std::deque<GuestDevice>& devices, Session& session,
                                        std::deque<Kind>* memories);

  std::deque<Memory> memories_;
  std::deque<ImportedMemory> imported_;
  StreamPools pools_;
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_POOLS_H_
