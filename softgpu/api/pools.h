// The memory pools of all devices: their memory is the devices'.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "api/pools/stream_pools.h"
#include "softgpu/api/handles.h"
#include "softgpu/api/stream_object.h"
#include "softgpu/exec/device.h"

namespace vgpu::softgpu {

// Thread-safe, but for what PoolMemory says.
class DevicePools {
 public:
  explicit DevicePools(const std::vector<std::unique_ptr<Device>>& devices);

  StreamPools* operator->() { return &pools_; }

  static CUmemoryPool handle(uint64_t id) {
    return id == 0 ? nullptr : reinterpret_cast<CUmemoryPool>(handle_bits(id));
  }
  CUmemoryPool pool_of(uint64_t address) { return handle(pools_.pool_of(address)); }

  // Whose stream it is; enough to allocate there.
  static StreamPlace place(const Stream& stream);
  // The same, with all that is submitted to it so far.
  StreamPlace end_of(const Stream& stream);
  // The stream has waited for the event.
  void note_wait(const Stream& stream, Event& event);

 private:
  // Memory of one device.
  class Memory : public PoolMemory {
   public:
    explicit Memory(Device& device) : device_(device) {}
    CUresult allocate(uint64_t bytes, uint64_t requested, uint64_t* address) override;
    void release(uint64_t address, const StreamPlace& place, bool past) override;
    bool split(uint64_t address, uint64_t bytes) override;
    void show(uint64_t address, uint64_t requested) override;
    // All devices reach all memory of the process.
    CUresult share(int, bool) override { return CUDA_SUCCESS; }
    bool past(const StreamPlace& place) override;
    bool exports() override { return device_.config().virtual_memory; }

   protected:
    Device& device_;
  };
  // Blocks of other processes' pools, opened there.
  class ImportedMemory final : public Memory {
   public:
    using Memory::Memory;
    CUresult allocate(uint64_t, uint64_t, uint64_t*) override { return CUDA_ERROR_INVALID_VALUE; }
    void release(uint64_t address, const StreamPlace& place, bool past) override;
    bool split(uint64_t, uint64_t) override { return false; }
  };
  template <typename Kind>
  std::vector<PoolMemory*> all_memories(const std::vector<std::unique_ptr<Device>>& devices,
                                        std::deque<Kind>* memories);

  std::deque<Memory> memories_;
  std::deque<ImportedMemory> imported_;
  StreamPools pools_;
};

}  // namespace vgpu::softgpu
