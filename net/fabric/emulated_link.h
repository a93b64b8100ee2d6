// Transport emulated: a link with a round trip, a bandwidth and a jitter of its own choosing.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_FABRIC_EMULATED_LINK_H_
#define VGPU_NET_FABRIC_EMULATED_LINK_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "net/fabric/link.h"

namespace vgpu::net {

struct Emulation {
  int64_t round_trip_ns = 0;
  int64_t jitter_ns = 0;  // each way, from 0 up to this, never out of order
  double bits_per_s = 0;  // each way; 0: no limit
  uint64_t seed = 1;
  uint64_t cut_after = 0;  // messages, both ways, on average; then it is cut. 0: never
};

// "rtt=100us,gbps=10,jitter=5us,cut=200,seed=7": any of them, times in ns, us or ms.
Result<Emulation> parse_emulation(std::string_view text);

// Holds back what goes and what comes. The peer needs to know nothing of it. What is added comes on
// top of what the link below takes. A cut loses what is held back at that moment, both ways.
class EmulatedLink final : public Link, private LinkSink {
 public:
  EmulatedLink(std::unique_ptr<Link> below, const Emulation& emulation)
      : below_(std::move(below)),
        emulation_(emulation),
        random_(emulation.seed),
        until_cut_(emulation.cut_after == 0 ? 0 : 1 + random_() % (2 * emulation.cut_after)) {}

  Sent write(std::span<const std::byte> from, uint64_t offset, uint64_t token) override;
  bool reaches(std::span<const std::byte> memory) const override { return below_->reaches(memory); }
  Sent send(std::span<const std::byte> message) override;
  int poll(LinkSink* sink) override;
  bool may_sleep() override;
  int64_t sleep_ns() override;
  int completion_fd() const override { return below_->completion_fd(); }
  int event_fd() const override { return below_->event_fd(); }
  bool intact() const override { return below_->intact(); }
  uint64_t window_bytes() const override { return below_->window_bytes(); }
  void shut_down() override { below_->shut_down(); }

 private:
  // One direction: when its last byte leaves, and when the last thing arrives.
  struct Way {
    int64_t free_ns = 0, last_ns = 0;
  };
  struct Operation {
    int64_t due_ns = 0;
    std::span<const std::byte> from;  // of a write
    std::vector<std::byte> bytes;     // of a message, or what a write was copied to
    uint64_t offset = 0;
    bool is_message = false;
  };

  bool received(std::span<const std::byte> message) override;
  void written(uint64_t token) override;
  int64_t due(Way* way, uint64_t bytes);
  bool forward();
  bool cut_now();

  std::unique_ptr<Link> below_;
  Emulation emulation_;
  std::mt19937_64 random_;
  uint64_t until_cut_;  // messages; 0: never
  Way out_, in_;
  std::deque<Operation> going_, coming_;
  uint64_t copied_bytes_ = 0;                   // in going_
  std::vector<uint64_t> left_;                  // tokens of writes that have been copied
  std::deque<std::vector<std::byte>> leaving_;  // copies that the link below reads
  bool over_ = false;
};

}  // namespace vgpu::net

#endif  // VGPU_NET_FABRIC_EMULATED_LINK_H_
