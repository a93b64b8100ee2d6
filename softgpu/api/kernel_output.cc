// printf text is collected per context; the heap is the process' own, with a limit.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/kernel_output.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "softgpu/api/driver.h"

namespace vgpu::softgpu {

void KernelOutput::print(std::string_view text) {
  std::string copy(text);
  std::lock_guard<std::mutex> lock(mutex_);
  text_bytes_ += copy.size();
  text_.push_back(std::move(copy));
  has_text_.store(true, std::memory_order_release);
  while (text_bytes_ > fifo_bytes_ && !text_.empty()) {
    text_bytes_ -= text_.front().size();
    text_.pop_front();
  }
}

uint64_t KernelOutput::heap_alloc(uint64_t bytes) {
  constexpr size_t kHeapAlignment = 16;
  if (bytes == 0) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  if (bytes > heap_bytes_ || heap_used_ > heap_bytes_ - bytes) return 0;
  const uint64_t rounded = (bytes + kHeapAlignment - 1) / kHeapAlignment * kHeapAlignment;
  void* block = std::aligned_alloc(kHeapAlignment, rounded);
  if (block == nullptr) return 0;
  const uint64_t address = reinterpret_cast<uint64_t>(block);
  heap_[address] = bytes;
  heap_used_ += bytes;
  return address;
}

void KernelOutput::heap_free(uint64_t address) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = heap_.find(address);
  if (found == heap_.end()) return;
  heap_used_ -= found->second;
  heap_.erase(found);
  std::free(reinterpret_cast<void*>(address));
}

bool KernelOutput::set_conditional(uint64_t handle, uint32_t value) {
  const std::shared_ptr<ConditionCell> cell = Driver::instance().conditions.find(handle);
  if (cell == nullptr || cell->kernels != this) return false;
  cell->value.store(value, std::memory_order_relaxed);
  return true;
}

void KernelOutput::assert_failed(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stderr);
}

void KernelOutput::set_limits(uint64_t fifo_bytes, uint64_t heap_bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  fifo_bytes_ = fifo_bytes;
  heap_bytes_ = heap_bytes;
}

void KernelOutput::flush() {
  if (!has_text_.load(std::memory_order_acquire)) return;
  std::deque<std::string> text;
  std::lock_guard<std::mutex> writing(writing_);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    has_text_.store(false, std::memory_order_relaxed);
    text.swap(text_);
    text_bytes_ = 0;
  }
  for (const std::string& one : text) std::fwrite(one.data(), 1, one.size(), stdout);
}

void KernelOutput::clear() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [address, bytes] : heap_) std::free(reinterpret_cast<void*>(address));
  heap_.clear();
  heap_used_ = 0;
}

}  // namespace vgpu::softgpu
