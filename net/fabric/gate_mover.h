// The gate's half of a mirrored channel: publishes to the worker what the guest sent, reports what
// the worker has published.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_FABRIC_GATE_MOVER_H_
#define VGPU_NET_FABRIC_GATE_MOVER_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "net/fabric/credits.h"
#include "net/fabric/link.h"
#include "net/fabric/messages.h"
#include "protocol/ring/layout.h"

namespace vgpu::net {

// Plays the guest in the memory that it shares with the worker. Neither side is trusted: of the
// guest every message is checked, of the worker every word read is bounded. One thread.
//
// It outlives connections. Answers and host calls stay where the worker has put them until the
// guest, having got them, uses their places again; so what it has not got is found there.
class GateMover final : private LinkSink {
 public:
  explicit GateMover(const protocol::ChannelView& view);
  GateMover(const GateMover&) = delete;
  GateMover& operator=(const GateMover&) = delete;

  // Goes on over a link that is connected to the guest, which says how far it has come: what it has
  // not is reported again. Refuses positions that cannot be.
  Status connect(Link* link, const Positions& theirs);
  // The link is no more. What it has brought is in positions().
  void disconnect();
  Positions positions() const { return {tail_, finished_, expectations_, 0, 0, 0}; }

  // Looks once at what the guest has sent, and publishes it. Whether anything had come.
  bool poll();
  // Reports what the worker has published. Words that nobody is known to wait for only when
  // something else goes too, when they are old, or when `all`. Whether anything went.
  bool report(int64_t now_ns, bool all);

  // The worker owes answers.
  bool owes() const {
    return std::any_of(outstanding_.begin(), outstanding_.end(), [](uint64_t w) { return w != 0; });
  }
  bool gone() const { return gone_; }
  const Status& error() const { return error_; }

  // Around a sleep: from begin_sleep on the worker wakes who waits on the futex words that it
  // names; whatever was published before then is found by a report() afterwards.
  void begin_sleep();
  void end_sleep();

 private:
  struct Slot {
    uint64_t offset = 0, bytes = 0;
    uint64_t moved = 0;  // bytes of it that were written already
  };

  bool received(std::span<const std::byte> message) override;
  void written(uint64_t /*token*/) override {}
  bool fault(const char* what);
  bool apply(const Update& update);
  bool expect(const Expectation& expectation);
  void publish(const Update& update);
  void copy_inline(const Update& update);

  struct Words {
    uint64_t head = 0, posted = 0;
    std::array<uint64_t, kSequences> sequences{};
    uint32_t state = 0;
    int32_t error = 0;
    bool operator==(const Words&) const = default;
  };
  Words read_words() const;
  void read_page(PageWords* page) const;
  uint16_t collect_answers();
  bool collect_answer(uint32_t slot);
  bool move_results(Slot* slot);
  bool worth_sending(const Words& words, bool page_changed, int64_t now_ns, bool all);
  bool send(const Words& words, const PageWords* page, uint16_t replies);
  bool send_ack();

  protocol::ChannelView view_;
  Link* link_ = nullptr;
  Credits credits_;
  MessageWriter message_;
  MessageWriter answers_;
  std::array<uint32_t, protocol::kReplySlots> collected_{};  // slots in answers_
  Update update_;
  uint64_t tail_ = 0, finished_ = 0;
  uint64_t moved_ = 0;
  std::array<uint64_t, protocol::kReplySlots / 64> outstanding_{};  // bits of slots_
  Words told_;                                                      // as last reported
  PageWords page_{};                                                // likewise
  int64_t stale_since_ns_ = 0;  // 0: nothing waits to be reported
  bool gone_ = true;
  bool again_ = false;  // the guest may have none of the words
  Status error_;
  uint64_t expectations_ = 0, answers_sent_ = 0;
  std::array<Slot, protocol::kReplySlots> slots_{};
  std::array<uint32_t, protocol::kReplySlots> answered_{};  // the slots of the last answers
};

}  // namespace vgpu::net

#endif  // VGPU_NET_FABRIC_GATE_MOVER_H_
