// A guest written by hand: commands straight into a channel, for tests of the server.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_SUPPORT_GUEST_H_
#define VGPU_TESTS_SUPPORT_GUEST_H_

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/slot_map.h"
#include "op.h"
#include "protocol/session/handshake.h"
#include "protocol/wire/encoder.h"
#include "protocol/wire/expectation.h"
#include "server/attach.h"
#include "wire.h"

namespace vgpu::testing {

inline constexpr int kHangMs = 30'000;  // nothing in a test takes this long unless it hangs

// Ids as the shim mints them: type, generation, index.
inline constexpr uint64_t kContextId = SlotId::make(1, 1, 0);
inline uint64_t stream_id(uint64_t index) { return SlotId::make(2, 1, index); }
inline uint64_t event_id(uint64_t index) { return SlotId::make(3, 1, index); }

inline protocol::Hello test_hello(uint64_t memory_bytes = 0) {
  protocol::Hello hello;
  hello.wire_hash = kWireHash;
  hello.executable = "test-guest";
  hello.label = "test";
  hello.shim_version = "test";
  hello.memory_bytes = memory_bytes;
  for (uint64_t base : server::kDeviceRangeBases) {
    hello.device_ranges.push_back({base, server::kDeviceRangeBytes});
  }
  return hello;
}

class Guest {
 public:
  explicit Guest(protocol::GuestChannel* channel) : channel_(channel) {}

  template <typename T>
  uint64_t post(Op op, const T& args, const std::string& blob = "") {
    std::lock_guard lock(channel_->lock());
    return protocol::write_record(&channel_->producer(), static_cast<uint16_t>(op), args,
                                  std::as_bytes(std::span(blob)));
  }

  // CUresult, or -1 when no answer came.
  template <typename T>
  int call(Op op, const T& args, protocol::Reply* reply = nullptr, const std::string& blob = "") {
    protocol::Reply unused;
    if (reply == nullptr) reply = &unused;
    const uint32_t slot = channel_->replies().acquire();
    if (slot == protocol::kNoReply) return -1;
    {
      std::lock_guard lock(channel_->lock());
      if (channel_->mover() != nullptr) protocol::expect_results(channel_->mover(), args, slot);
      protocol::write_record(&channel_->producer(), static_cast<uint16_t>(op), args,
                             std::as_bytes(std::span(blob)), slot);
    }
    const auto waited = channel_->replies().wait(slot, reply, int64_t{kHangMs} * 1'000'000);
    if (waited != protocol::WaitResult::kReady) return -1;
    channel_->replies().release(slot);
    return reply->result;
  }

  void enter_context() {
    wire::PrimaryRetainArgs retain;
    retain.context = kContextId;
    post(Op::kPrimaryRetain, retain);
    wire::ContextBindArgs bind;
    bind.context = kContextId;
    post(Op::kContextBind, bind);
  }

  // Maps memory at the start of the range plus `offset`.
  int map(uint64_t base, uint64_t bytes) {
    wire::MemCreditArgs credit;
    credit.bytes = bytes;
    if (int result = call(Op::kMemCredit, credit); result != 0) return result;
    wire::MemMapArgs args;
    args.address = base;
    args.bytes = bytes;
    post(Op::kMemMap, args);
    return 0;
  }

  // `bytes` of device memory in whichever way the server allocates; 0 when it failed.
  uint64_t allocate(const protocol::HelloReply& hello, uint64_t bytes) {
    if (hello.allocator == protocol::AllocatorMode::kReserved) {
      return map(hello.device_range.base, bytes) == 0 ? hello.device_range.base : 0;
    }
    wire::SlabLendArgs args;
    args.bytes = bytes;
    protocol::Reply reply;
    wire::SlabLendReply lent;
    return call(Op::kSlabLend, args, &reply) == 0 && reply.get(&lent) ? lent.address : 0;
  }

  uint64_t write_inline(uint64_t to, const std::string& text, uint64_t stream = 1) {
    wire::CopyToDeviceArgs args;
    args.destination = to;
    args.bytes = text.size();
    args.stream = stream;
    return post(Op::kCopyToDevice, args, text);
  }

  std::string read(uint64_t from, uint64_t bytes, uint64_t stream = 1) {
    wire::CopyFromDeviceArgs args;
    args.source = from;
    args.bytes = bytes;
    args.stream = stream;
    if (call(Op::kCopyFromDevice, args) != 0) return "";
    return std::string(reinterpret_cast<const char*>(channel_->down_slab().data()), bytes);
  }

  int synchronize() {
    wire::ContextSynchronizeArgs args;
    args.context = kContextId;
    return call(Op::kContextSynchronize, args);
  }

  protocol::GuestChannel& channel() { return *channel_; }

 private:
  protocol::GuestChannel* channel_;
};

}  // namespace vgpu::testing

#endif  // VGPU_TESTS_SUPPORT_GUEST_H_
