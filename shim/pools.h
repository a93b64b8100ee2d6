// The guest's memory pools: their memory is cut from the guest's own, without asking the worker.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_POOLS_H_
#define VGPU_SHIM_POOLS_H_

#include "api/pools/stream_pools.h"
#include "shim/objects.h"

namespace vgpu::shim {

class Session;
struct StreamRef;

// Thread-safe, but for what PoolMemory says.
class GuestPools final : private PoolMemory {
 public:
  explicit GuestPools(Session& session) : session_(session), pools_(*this) {}

  StreamPools* operator->() { return &pools_; }
  // Where work in `stream` of `context` stands.
  static StreamPlace place(const Context& context, const StreamRef& stream);
  // The stream waits for an event of context `of`, recorded as it was when the wait was written.
  void note_wait(const Context& context, const StreamRef& stream, const Context& of,
                 const Event::Record& record);

 private:
  CUresult allocate(uint64_t bytes, uint64_t requested, uint64_t* address) override;
  void release(uint64_t address, const StreamPlace& place, bool past) override;
  bool split(uint64_t address, uint64_t bytes) override;
  void show(uint64_t address, uint64_t requested) override;
  bool past(const StreamPlace& place) override;

  Session& session_;
  StreamPools pools_;
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_POOLS_H_
