// Records as they stood in a ring.
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/recorded_script.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "op.h"
#include "wire.h"

namespace vgpu::testing {
namespace {

constexpr uint64_t kRecordsMax = 512;
constexpr uint64_t kMiB = 1 << 20;

// In one address space the session believes a guest's word about its own memory, so only such words
// go through that are true: about an arena where recorded guests had theirs.
bool may_write(const protocol::RecordHeader& header, std::span<const uint8_t> body) {
  constexpr uint64_t kArenaBase = uint64_t{0x2800} << 32, kArenaBytes = 64 * kMiB;
  static const bool mapped = [] {
    void* place = mmap(reinterpret_cast<void*>(kArenaBase), kArenaBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    return place == reinterpret_cast<void*>(kArenaBase);
  }();
  if (header.op != static_cast<uint16_t>(Op::kHostMap)) return true;
  wire::HostMapArgs args;
  if (!mapped || body.size() < sizeof(args)) return false;
  std::memcpy(&args, body.data(), sizeof(args));
  return args.address >= kArenaBase && args.bytes <= kArenaBytes &&
         args.address - kArenaBase <= kArenaBytes - args.bytes;
}

class Player {
 public:
  Player(protocol::GuestChannel* channel, int64_t answer_ns)
      : channel_(channel), answer_ns_(answer_ns) {}

  // The record at the front of *rest, written unless it must not be. False: nothing more to do.
  bool play(std::span<const uint8_t>* rest) {
    protocol::RecordHeader header;
    if (rest->size() < sizeof(header)) return false;
    std::memcpy(&header, rest->data(), sizeof(header));
    const size_t longest = std::min<size_t>(rest->size(), protocol::kRecordBytesMax / 2);
    const size_t taken = std::clamp<size_t>(header.bytes, sizeof(header), longest);
    const auto body = rest->subspan(sizeof(header), taken - sizeof(header));
    *rest = rest->subspan(taken);
    if (!may_write(header, body)) return true;
    if (header.op == static_cast<uint16_t>(Op::kMemMap)) wait_for_credit(body);
    const bool waits = patient_ && header.reply != protocol::kNoReply;
    if (waits) header.reply = channel_->replies().acquire();
    if (waits && header.reply == protocol::kNoReply) return false;  // the channel is dead
    header.bytes = protocol::round_up_to_record(static_cast<uint32_t>(taken));
    std::byte* place = channel_->producer().reserve(header.bytes);
    if (place == nullptr) return false;
    std::memset(place, 0, header.bytes);
    std::memcpy(place, &header, sizeof(header));
    if (!body.empty()) std::memcpy(place + sizeof(header), body.data(), body.size());
    channel_->producer().commit();
    if (waits) wait(header.reply);
    return true;
  }

 private:
  // As guests do, who map only what is backed.
  void wait_for_credit(std::span<const uint8_t> body) {
    wire::MemMapArgs args;
    if (!patient_ || body.size() < sizeof(args)) return;
    std::memcpy(&args, body.data(), sizeof(args));
    mapped_bytes_ += args.bytes;
    patient_ = channel_->semaphores().wait_for_credit(args.device, mapped_bytes_, answer_ns_) ==
               protocol::WaitResult::kReady;
  }
  void wait(uint32_t slot) {
    protocol::Reply reply;
    patient_ = channel_->replies().wait(slot, &reply, answer_ns_) == protocol::WaitResult::kReady;
    if (patient_) channel_->replies().release(slot);
  }

  protocol::GuestChannel* channel_;
  const int64_t answer_ns_;
  bool patient_ = true;  // until an answer does not come
  uint64_t mapped_bytes_ = 0;
};

}  // namespace

uint64_t write_recorded_script(protocol::GuestChannel* channel, std::span<const uint8_t> rest,
                               int64_t answer_ns) {
  // What the guest had staged was not recorded: text that may be an image stands in for it.
  const auto slab = channel->up_slab();
  std::memset(slab.data(), '\n', std::min<size_t>(slab.size(), kMiB));
  Player player(channel, answer_ns);
  uint64_t records = 0;
  while (records < kRecordsMax && player.play(&rest)) ++records;
  return records;
}

}  // namespace vgpu::testing
