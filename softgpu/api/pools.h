// The memory pools of the device: their memory is the device's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/pools/stream_pools.h"
#include "softgpu/api/handles.h"
#include "softgpu/api/stream_object.h"
#include "softgpu/exec/device.h"

namespace vgpu::softgpu {

// Thread-safe, but for what PoolMemory says.
class DevicePools final : private PoolMemory {
 public:
  explicit DevicePools(Device& device) : device_(device), pools_(*this) {}

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
  CUresult allocate(uint64_t bytes, uint64_t requested, uint64_t* address) override;
  void release(uint64_t address, const StreamPlace& place, bool past) override;
  bool split(uint64_t address, uint64_t bytes) override;
  void show(uint64_t address, uint64_t requested) override;
  bool past(const StreamPlace& place) override;

  Device& device_;
  StreamPools pools_;
};

}  // namespace vgpu::softgpu
