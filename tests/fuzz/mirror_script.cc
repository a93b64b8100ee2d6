// A hostile peer made of bytes.
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mirror_script.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "net/fabric/gate_mover.h"
#include "net/fabric/guest_mover.h"
#include "tests/fuzz/require.h"

namespace vgpu::net {
namespace {

using testing::require;

constexpr protocol::ChannelSizes kSizes{protocol::kRingBytesMin, protocol::kSlabBytesMin,
                                        protocol::kSlabBytesMin};
constexpr uint32_t kSlot = 7;  // that the guest waits on, with results in
constexpr uint64_t kDownBytes = 256;
constexpr uint64_t kTail = 64;

// Takes everything, and gives the messages of the script.
class ScriptLink final : public Link {
 public:
  Sent write(std::span<const std::byte>, uint64_t, uint64_t) override { return Sent::kDone; }
  bool reaches(std::span<const std::byte>) const override { return true; }
  Sent send(std::span<const std::byte>) override { return Sent::kDone; }
  int poll(LinkSink* sink) override {
    if (messages.empty()) return 0;
    const std::vector<std::byte> message = std::move(messages.front());
    messages.pop_front();
    if (!sink->received(message)) return -1;
    ++taken;
    return 1;
  }
  bool may_sleep() override { return true; }
  int completion_fd() const override { return -1; }
  int event_fd() const override { return -1; }
  uint64_t window_bytes() const override { return kSizes.ring_bytes + kSizes.up_bytes; }
  void shut_down() override {}

  std::deque<std::vector<std::byte>> messages;
  uint64_t taken = 0;
};

std::deque<std::vector<std::byte>> messages_of(std::span<const uint8_t> bytes, bool to_guest) {
  std::deque<std::vector<std::byte>> messages;
  while (bytes.size() >= 2) {
    uint16_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    bytes = bytes.subspan(2);
    const bool headed = length == 0xffff;
    const size_t count = std::min<size_t>(headed ? 512 : length, bytes.size());
    std::vector<std::byte> message(count);
    if (count != 0) std::memcpy(message.data(), bytes.data(), count);
    bytes = bytes.subspan(count);
    if (headed && count >= sizeof(MessageHeader)) {
      const MessageHeader header{to_guest ? MessageKind::kReport : MessageKind::kUpdate,
                                 static_cast<uint32_t>(count), 0};
      std::memcpy(message.data(), &header, sizeof(header));
    }
    messages.push_back(std::move(message));
  }
  return messages;
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

uint64_t attack_gate(const protocol::ChannelView& view, ScriptLink* link) {
  GateMover gate(view);
  require(gate.connect(link, {}).ok());
  while (!link->messages.empty() && !gate.gone()) (void)gate.poll();
  (void)gate.report(1, true);
  const auto* semaphores = reinterpret_cast<const std::byte*>(view.semaphores());
  require(is_zero({semaphores, protocol::kPageBytes}));
  require(is_zero(view.up_slab()) && is_zero(view.down_slab()));
  require(view.header()->head.position.load() == 0);
  const uint64_t tail = view.header()->tail.position.load();
  require(tail % protocol::kRecordAlignBytes == 0);
  return link->taken;
}

uint64_t attack_guest(const protocol::ChannelView& view, ScriptLink* link) {
  GuestMover guest(view);
  require(guest.connect(link, {}).ok());
  guest.expect(kSlot, 0, kDownBytes);
  view.header()->tail.position.store(kTail);
  (void)guest.flush();
  while (!link->messages.empty() && !guest.gone()) (void)guest.poll();
  require(view.header()->tail.position.load() == kTail);
  require(view.header()->head.position.load() <= kTail);
  require(is_zero({view.ring(), kSizes.ring_bytes + kSizes.up_bytes}));
  require(is_zero(view.down_slab().subspan(kDownBytes)));
  for (uint32_t i = 0; i < protocol::kReplySlots; ++i)
    require(i == kSlot || view.replies()[i].state.load() == protocol::kReplyFree);
  return link->taken;
}

}  // namespace

uint64_t run_mirror_script(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return 0;
  const std::unique_ptr<std::byte, void (*)(void*)> memory(
      static_cast<std::byte*>(std::aligned_alloc(protocol::kPageBytes, kSizes.total_bytes())),
      &std::free);
  std::memset(memory.get(), 0, kSizes.total_bytes());
  const protocol::ChannelView view(memory.get(), kSizes);
  const bool to_guest = bytes[0] % 2 != 0;
  ScriptLink link;
  link.messages = messages_of(bytes.subspan(1), to_guest);
  return to_guest ? attack_guest(view, &link) : attack_gate(view, &link);
}

}  // namespace vgpu::net
