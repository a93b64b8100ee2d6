// Ledger and tokens over shared memory. Liveness of owners: one OFD byte lock each.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/device_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/futex.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kMagic = 0x76677075'73656731;  // "vgpuseg1"
constexpr uint32_t kVersion = 1;
constexpr off_t kInitByte = 0;    // lock of whoever creates or joins
constexpr off_t kSlotByte = 1;    // lock of slot n is byte kSlotByte + n
constexpr int kReserveTries = 4;  // two processes may briefly see each other's refused request
constexpr int64_t kTokenRecheckNs =
    5'000'000;  // how long a dead owner can keep a token from a waiter

struct flock byte_lock(short type, off_t byte) {
  struct flock lock;
  std::memset(&lock, 0, sizeof(lock));
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

int retry_lock(int fd, int command, struct flock* lock) {
  int result;
  do {
    result = ::fcntl(fd, command, lock);
  } while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace

Result<std::unique_ptr<DeviceSegment>> DeviceSegment::open(const DeviceConfig& config) {
  std::unique_ptr<DeviceSegment> segment(new DeviceSegment());
  if (config.segment_path.empty()) {
    Result<Mapping> memory = Mapping::map_private(sizeof(SegmentLayout));
    if (!memory.ok()) return memory.status();
    segment->mapping_ = std::move(memory).value();
    segment->layout_ = reinterpret_cast<SegmentLayout*>(segment->mapping_.data());
    segment->layout_->sms = config.sms;
    segment->layout_->memory_bytes = config.memory_bytes;
    VGPU_RETURN_IF_ERROR(segment->take_slot());
    return segment;
  }
  segment->fd_.reset(::open(config.segment_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!segment->fd_.valid()) return Status::from_errno(errno, config.segment_path.c_str());
  struct flock lock = byte_lock(F_WRLCK, kInitByte);
  if (retry_lock(segment->fd_.get(), F_OFD_SETLKW, &lock) < 0) {
    return Status::from_errno(errno, "lock of the device segment");
  }
  Status joined = segment->join(config);
  lock = byte_lock(F_UNLCK, kInitByte);
  retry_lock(segment->fd_.get(), F_OFD_SETLK, &lock);
  if (!joined.ok()) return joined;
  return segment;
}

Status DeviceSegment::join(const DeviceConfig& config) {
  struct stat info;
  if (::fstat(fd_.get(), &info) < 0) return Status::from_errno(errno, "fstat");
  const bool fresh = info.st_size == 0;
  if (!fresh && static_cast<size_t>(info.st_size) < sizeof(SegmentLayout)) {
    return Status(StatusCode::kMismatch, "the device segment file is too short to be one");
  }
  if (fresh && ::ftruncate(fd_.get(), sizeof(SegmentLayout)) < 0) {
    return Status::from_errno(errno, "ftruncate");
  }
  Result<Mapping> memory = Mapping::map_shared(fd_.get(), sizeof(SegmentLayout));
  if (!memory.ok()) return memory.status();
  mapping_ = std::move(memory).value();
  // A mapping keeps the file open, and with it our locks: a forked child must not inherit it, or a
  // killed process would seem alive for as long as its child runs.
  if (::madvise(mapping_.data(), mapping_.size(), MADV_DONTFORK) < 0) {
    return Status::from_errno(errno, "madvise of the device segment");
  }
  layout_ = reinterpret_cast<SegmentLayout*>(mapping_.data());
  if (layout_->magic == 0) {  // ours to fill: also when a creator died before this point
    layout_->version = kVersion;
    layout_->sms = config.sms;
    layout_->memory_bytes = config.memory_bytes;
    layout_->magic = kMagic;
  }
  if (layout_->magic != kMagic || layout_->version != kVersion || layout_->sms == 0 ||
      layout_->sms > kSmsMax) {
    return Status(StatusCode::kMismatch, "the device segment was made by another version");
  }
  bury_the_dead();
  return take_slot();
}

Status DeviceSegment::take_slot() {
  for (uint32_t slot = 0; slot < kOwnersMax; ++slot) {
    uint32_t generation = layout_->generation[slot].load(std::memory_order_acquire);
    if ((generation & 1) != 0) continue;
    if (fd_.valid()) {
      struct flock lock = byte_lock(F_WRLCK, kSlotByte + slot);
      if (retry_lock(fd_.get(), F_OFD_SETLK, &lock) < 0) continue;
    }
    layout_->held_bytes[slot].store(0, std::memory_order_relaxed);
    layout_->generation[slot].store(generation + 1, std::memory_order_release);
    if (layout_->owners_used.load() <= slot) layout_->owners_used.store(slot + 1);
    slot_ = slot;
    mark_ = (slot + 1) | ((generation + 1) << 16);
    return ok_status();
  }
  return Status(StatusCode::kResourceExhausted, "every owner slot of the device is taken");
}

DeviceSegment::~DeviceSegment() {
  if (layout_ == nullptr || mark_ == 0) return;
  bury(slot_);
}

void DeviceSegment::abandon_after_fork() {
  mark_ = 0;
  layout_ = nullptr;
  fd_.reset();
}

bool DeviceSegment::owner_is_dead(uint32_t slot) const {
  if (!fd_.valid() || slot == slot_) return false;
  struct flock lock = byte_lock(F_WRLCK, kSlotByte + slot);
  return retry_lock(fd_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

// Gives back what slot held. Safe when several bury the same owner: each word is cleared only while
// it is still that owner's.
void DeviceSegment::bury(uint32_t slot) {
  uint32_t generation = layout_->generation[slot].load(std::memory_order_acquire);
  if ((generation & 1) == 0) return;
  const uint32_t mark = (slot + 1) | (generation << 16);
  for (uint32_t sm = 0; sm < layout_->sms; ++sm) {
    uint32_t held = mark;
    layout_->token[sm].compare_exchange_strong(held, 0);
  }
  layout_->held_bytes[slot].store(0, std::memory_order_release);
  layout_->generation[slot].compare_exchange_strong(generation, generation + 1);
  wake_waiters();
}

void DeviceSegment::bury_the_dead() {
  const uint32_t used = std::min(layout_->owners_used.load(std::memory_order_acquire), kOwnersMax);
  for (uint32_t slot = 0; slot < used; ++slot) {
    if ((layout_->generation[slot].load(std::memory_order_acquire) & 1) == 0) continue;
    if (!owner_is_dead(slot)) continue;
    // The slot may have been buried and taken anew meanwhile; whoever takes a slot holds its lock
    // first, so holding it ourselves excludes both.
    struct flock lock = byte_lock(F_WRLCK, kSlotByte + slot);
    if (retry_lock(fd_.get(), F_OFD_SETLK, &lock) < 0) continue;
    bury(slot);
    lock = byte_lock(F_UNLCK, kSlotByte + slot);
    retry_lock(fd_.get(), F_OFD_SETLK, &lock);
  }
}

uint64_t DeviceSegment::used_bytes() {
  bury_the_dead();
  const uint32_t used = std::min(layout_->owners_used.load(std::memory_order_acquire), kOwnersMax);
  uint64_t sum = 0;
  for (uint32_t slot = 0; slot < used; ++slot) {
    sum += layout_->held_bytes[slot].load(std::memory_order_seq_cst);
  }
  return sum;
}

bool DeviceSegment::reserve(uint64_t bytes) {
  if (bytes > layout_->memory_bytes) return false;
  std::atomic<uint64_t>& mine = layout_->held_bytes[slot_];
  const auto sum = [this] {
    const uint32_t used = std::min(layout_->owners_used.load(), kOwnersMax);
    uint64_t total = 0;
    for (uint32_t slot = 0; slot < used; ++slot) {
      total += layout_->held_bytes[slot].load(std::memory_order_seq_cst);
    }
    return total;
  };
  for (int attempt = 0; attempt < kReserveTries; ++attempt) {
    // Ask first, look second: two that ask at once both see the other's request, so the device is
    // never overbooked.
    mine.fetch_add(bytes, std::memory_order_seq_cst);
    if (sum() <= layout_->memory_bytes) return true;
    mine.fetch_sub(bytes, std::memory_order_seq_cst);
    if (attempt == 0) bury_the_dead();
  }
  return false;
}

void DeviceSegment::release(uint64_t bytes) {
  layout_->held_bytes[slot_].fetch_sub(bytes, std::memory_order_seq_cst);
}

bool DeviceSegment::try_token(uint32_t token) {
  uint32_t free = 0;
  // acquire: pairs with release_token's exchange; nothing is read through the token itself.
  return layout_->token[token].load(std::memory_order_relaxed) == 0 &&
         layout_->token[token].compare_exchange_strong(free, mark_, std::memory_order_acquire);
}

uint32_t DeviceSegment::acquire_token(uint32_t preferred) {
  const uint32_t sms = layout_->sms;
  preferred %= sms;
  if (try_token(preferred)) return preferred;
  for (;;) {
    // The word is read before the flag goes up: a releaser lowers the flag before it bumps the
    // word, so either the flag we raise stays up or the word we read is stale and the wait returns
    // at once.
    const uint32_t word = layout_->token_word.load(std::memory_order_seq_cst);
    layout_->token_wanted.store(1, std::memory_order_seq_cst);
    for (uint32_t i = 0; i < sms; ++i) {
      const uint32_t token = (preferred + i) % sms;
      if (try_token(token)) return token;
    }
    futex_wait(&layout_->token_word, word, kTokenRecheckNs);
    if (layout_->token_word.load(std::memory_order_seq_cst) == word) bury_the_dead();
  }
}

void DeviceSegment::release_token(uint32_t token) {
  layout_->token[token].exchange(0, std::memory_order_seq_cst);
  wake_waiters();
}

void DeviceSegment::wake_waiters() {
  if (layout_->token_wanted.load(std::memory_order_seq_cst) == 0) return;
  layout_->token_wanted.store(0, std::memory_order_seq_cst);
  layout_->token_word.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(&layout_->token_word);
}

}  // namespace vgpu::softgpu
