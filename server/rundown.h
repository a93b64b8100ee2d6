// Using what another thread may end: calls that are under way are let finish, later ones refused.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_RUNDOWN_H_
#define VGPU_SERVER_RUNDOWN_H_

#include <atomic>
#include <cstdint>

namespace vgpu::server {

// Thread-safe; two atomic additions for each use.
class Rundown {
 public:
  // A use, from its construction to its end; false when it came too late.
  class Use {
   public:
    explicit Use(Rundown* rundown) : rundown_(rundown->enter() ? rundown : nullptr) {}
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      if (rundown_ != nullptr) rundown_->leave();
    }
    explicit operator bool() const { return rundown_ != nullptr; }

   private:
    Rundown* rundown_;
  };

  // Refuses all later uses and waits for those under way. Once; not inside a use.
  void close() {
    uint32_t users = state_.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed;
    while (users != kClosed) {
      state_.wait(users, std::memory_order_acquire);
      users = state_.load(std::memory_order_acquire);
    }
  }

 private:
  static constexpr uint32_t kClosed = uint32_t{1} << 31;

  bool enter() {
    if ((state_.fetch_add(1, std::memory_order_acq_rel) & kClosed) == 0) return true;
    leave();
    return false;
  }
  // release: what the user did is seen by close().
  void leave() {
    if ((state_.fetch_sub(1, std::memory_order_acq_rel) & kClosed) != 0) state_.notify_all();
  }

  std::atomic<uint32_t> state_{0};  // users, and kClosed
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_RUNDOWN_H_
