// What the kernels of this process print, brought from the worker to our own standard output.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_OUTPUT_H_
#define VGPU_SHIM_OUTPUT_H_

#include <atomic>
#include <cstdint>
#include <mutex>

namespace vgpu::shim {

class Session;

// Thread-safe.
class Output {
 public:
  // Some code that is loaded may print: waiting calls then go to the worker even when it is known
  // that there is nothing to wait for.
  bool prints() const { return prints_.load(std::memory_order_relaxed); }
  void code_prints() { prints_.store(true, std::memory_order_relaxed); }

  // Writes what the worker has. `wait`: also when other threads write, or use the channel's memory,
  // just now.
  void show(Session& session, bool wait = true);

 private:
  bool show_some(Session& session, uint32_t kind, bool wait);

  std::atomic<bool> prints_{false};
  std::atomic<uint64_t> passed_{0};  // how much of all that was printed we need not ask for
  std::mutex mutex_;                 // one writes at a time, in order
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_OUTPUT_H_
