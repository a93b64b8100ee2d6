// The memory that all software GPU instances of one device share: who holds how many bytes, and
// which SMs are busy. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SOFTGPU_EXEC_DEVICE_SEGMENT_H_
#define VGPU_SOFTGPU_EXEC_DEVICE_SEGMENT_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/mapping.h"
#include "base/unique_fd.h"
#include "softgpu/exec/device_config.h"

namespace vgpu::softgpu {

inline constexpr uint32_t kOwnersMax = 256;  // processes on one device; the next is refused

// Layout of the segment file. Everything is atomic words: nobody can die holding a lock.
struct SegmentLayout {
  uint64_t magic;
  uint32_t version;
  uint32_t sms;
  uint64_t memory_bytes;
  std::atomic<uint32_t> owners_used;   // slots ever taken; readers look no further
  std::atomic<uint32_t> token_wanted;  // 1 = somebody may wait; a flag, so that a killed waiter
                                       // leaves no count behind
  std::atomic<uint32_t> token_word;    // futex: bumped when a token is freed while the flag is up
  // Per owner: generation (odd = taken; counts every change) and bytes of device memory held.
  std::atomic<uint32_t> generation[kOwnersMax];
  std::atomic<uint64_t> held_bytes[kOwnersMax];
  // Per SM: 0 = free, else owner slot + 1 in the low half and its generation's low 16 bits above.
  std::atomic<uint32_t> token[kSmsMax];
};

// One process' view of the segment. Thread-safe. The process' own slot is returned when the object
// goes; when the process is killed, the kernel drops the byte lock that marks the slot, and whoever
// looks next takes the bytes and tokens back.
class DeviceSegment {
 public:
  // Opens or creates the file of config.segment_path, or private memory when it is empty. Capacity
  // and number of SMs are those of the process that created it.
  static Result<std::unique_ptr<DeviceSegment>> open(const DeviceConfig& config);
  ~DeviceSegment();

  uint64_t memory_bytes() const { return layout_->memory_bytes; }
  uint32_t sms() const { return layout_->sms; }
  // Bytes held by all live owners.
  uint64_t used_bytes();

  // Takes `bytes` of the device's memory. False when the device has no more.
  bool reserve(uint64_t bytes);
  void release(uint64_t bytes);

  // Takes an SM token, `preferred` if it is free; waits while all are held. Returns the token to
  // give back.
  uint32_t acquire_token(uint32_t preferred);
  void release_token(uint32_t token);
  // Whether other processes may have the same device.
  bool shared() const { return fd_.valid(); }
  bool tokens_wanted() const { return layout_->token_wanted.load(std::memory_order_relaxed) != 0; }

  // In a forked child: gives up the inherited descriptor (the slot stays the parent's). The mapping
  // is not inherited; nothing may be called afterwards.
  void abandon_after_fork();

 private:
  DeviceSegment() = default;
  Status join(const DeviceConfig& config);
  Status take_slot();
  bool owner_is_dead(uint32_t slot) const;
  void bury(uint32_t slot);
  void bury_the_dead();
  bool try_token(uint32_t token);
  void wake_waiters();

  UniqueFd fd_;
  Mapping mapping_;
  SegmentLayout* layout_ = nullptr;
  uint32_t slot_ = 0;
  uint32_t mark_ = 0;  // what our tokens hold
};

}  // namespace vgpu::softgpu

#endif  // VGPU_SOFTGPU_EXEC_DEVICE_SEGMENT_H_
