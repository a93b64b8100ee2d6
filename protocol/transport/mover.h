// What moves bytes between two memories, where guest and worker do not share one.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_TRANSPORT_MOVER_H_
#define VGPU_PROTOCOL_TRANSPORT_MOVER_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace vgpu::protocol {

// The guest's side of a channel whose memory is a mirror. What the worker publishes appears in
// the guest's memory as if the worker had written it, words after data; what the guest publishes
// goes to the worker by itself. Told here is only what a look at the memory does not show.
// Thread-safe.
class Mover {
 public:
  virtual ~Mover() = default;

  // Something was published that no thread waits for.
  virtual void published() = 0;

  // Under the channel's lock, before the record that names `slot` is published: its results come
  // into these bytes of the down-slab (bytes 0: none).
  virtual void expect(uint32_t slot, uint64_t offset, uint64_t bytes) = 0;

  // Brings `from` to `offset` of the worker's up-slab. When it returns, `from` may be used again,
  // unless it lies at that offset of the guest's own up-slab: then it stays until it is retired.
  virtual void stage(uint64_t offset, std::span<const std::byte> from) = 0;

  // The calling thread waits: sends what was published and looks for what comes, for a while. True
  // as soon as `ready` says yes. False: the caller sleeps until woken, and then calls slept().
  virtual bool help(bool (*ready)(void*), void* argument) = 0;
  virtual void slept() = 0;
};

// One wait, from its first look to its end: for threads that may sleep afterwards.
class MovedWait {
 public:
  template <typename Ready>
  MovedWait(Mover* mover, Ready& ready) : mover_(mover) {
    const auto ask = [](void* argument) { return (*static_cast<Ready*>(argument))(); };
    if (mover != nullptr && mover->help(ask, &ready)) mover_ = nullptr;
  }
  MovedWait(const MovedWait&) = delete;
  MovedWait& operator=(const MovedWait&) = delete;
  ~MovedWait() {
    if (mover_ != nullptr) mover_->slept();
  }

 private:
  Mover* mover_;
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_TRANSPORT_MOVER_H_
