// What kernels of one context ask of the host side: printf, malloc, assert, conditions of graphs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "softgpu/exec/device_services.h"

namespace vgpu::softgpu {

// Thread-safe. Text beyond the buffer's size pushes out the oldest, as documented for printf in
// kernels.
class KernelOutput : public DeviceServices {
 public:
  void print(std::string_view text) override;
  uint64_t heap_alloc(uint64_t bytes) override;
  void heap_free(uint64_t address) override;
  bool set_conditional(uint64_t handle, uint32_t value) override;
  void assert_failed(std::string_view text) override;

  void set_limits(uint64_t fifo_bytes, uint64_t heap_bytes);
  // Writes collected printf text to stdout; called where the program synchronises, launches, loads
  // and unloads code. One load when there is none.
  void flush();
  // Frees what kernels left on the heap.
  void clear();

 private:
  std::mutex writing_;  // before mutex_: texts are written in their order
  std::mutex mutex_;
  std::atomic<bool> has_text_{false};
  std::deque<std::string> text_;  // one printf each, oldest first
  uint64_t text_bytes_ = 0;
  uint64_t fifo_bytes_ = 1 << 20;
  uint64_t heap_bytes_ = 8 << 20;
  uint64_t heap_used_ = 0;
  std::unordered_map<uint64_t, uint64_t> heap_;  // address -> bytes
};

}  // namespace vgpu::softgpu
