// The program's functions in its streams, by the names that the worker calls them.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_HOST_CALLS_H_
#define VGPU_SHIM_HOST_CALLS_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "base/slot_map.h"
#include "base/spin_mutex.h"
#include "protocol/ring/host_calls.h"
#include "shim/objects.h"

namespace vgpu::shim {

class Session;

// A function as the program has given it: one of `function` and `callback`.
struct HostFunction {
  CUhostFn function = nullptr;
  CUstreamCallback callback = nullptr;
  CUstream stream = nullptr;  // handed to `callback`
  void* user = nullptr;
  Context* context = nullptr;
  bool repeated = false;  // of a graph's node: called any number of times, until it is removed
};

// Thread-safe. The functions run one after the other on a thread of ours, which exists once the
// first was added.
class HostCalls {
 public:
  // Gives a function its name. 0: no memory, or no thread.
  uint64_t add(Session* session, const HostFunction& function);
  // Forgets a function that will not be called, or no more.
  void remove(uint64_t id);
  // Those of a context that is gone. Callbacks stay: each is called once, whatever happens.
  void forget(const Context* context);
  // Whether any may still run, or runs. acquire: what those that have run have written is seen.
  bool outstanding() const { return outstanding_.load(std::memory_order_acquire) != 0; }

 private:
  bool start(Session* session);
  static void* run_all(void* session);
  void run(Session* session, const protocol::HostCall& call);

  SpinMutex mutex_;
  SlotMap<HostFunction, kHostCallTag> functions_;  // under mutex_
  bool started_ = false;                           // under mutex_
  std::atomic<uint32_t> outstanding_{0};           // named, and not called and over
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_HOST_CALLS_H_
