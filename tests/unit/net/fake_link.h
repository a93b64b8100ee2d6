// A fabric of two ends in one process, which does what providers may do, from a seed.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_UNIT_NET_FAKE_LINK_H_
#define VGPU_TESTS_UNIT_NET_FAKE_LINK_H_

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "net/fabric/fabric_limits.h"
#include "net/fabric/link.h"

namespace vgpu::net::testing {

// One end. Writes are read from their source only when they arrive, as an adapter may; completions
// come late and, between writes, in any order; the link is full when it likes. What is kept is what
// Link promises: one side's writes and messages arrive in the order in which they were given.
class FakeLink final : public Link {
 public:
  FakeLink(uint64_t seed, std::span<std::byte> window) : random_(seed), window_(window) {}

  static void join(FakeLink* a, FakeLink* b) {
    a->peer_ = b;
    b->peer_ = a;
  }

  Sent write(std::span<const std::byte> from, uint64_t offset, uint64_t token) override {
    if (gone_) return Sent::kGone;
    if (alone_) return Sent::kDone;
    if (full()) return Sent::kFull;
    EXPECT_LE(from.size(), kWriteBytesMax);
    EXPECT_LE(offset + from.size(), peer_->window_.size());
    peer_->coming_.push_back({from, offset, token, {}, false});
    return Sent::kDone;
  }
  bool reaches(std::span<const std::byte> /*memory*/) const override { return true; }
  Sent send(std::span<const std::byte> message) override {
    if (gone_) return Sent::kGone;
    if (alone_) return Sent::kDone;
    if (full()) return Sent::kFull;
    peer_->coming_.push_back({{}, 0, 0, {message.begin(), message.end()}, true});
    ++messages_;
    return Sent::kDone;
  }
  int poll(LinkSink* sink) override {
    if (gone_) return -1;
    int happened = finish(sink);
    for (uint64_t some = random_() % 4; some > 0 && !coming_.empty(); --some) {
      Operation next = std::move(coming_.front());
      coming_.pop_front();
      ++happened;
      if (next.is_message) {
        EXPECT_GT(receives_, 0u) << "more messages than receives";
        if (!sink->received(next.message)) {
          cut();
          return -1;
        }
        continue;
      }
      std::memcpy(window_.data() + next.offset, next.from.data(), next.from.size());
      if (next.token != 0 && !alone_) peer_->finished_.push_back(next.token);
    }
    return happened;
  }
  bool may_sleep() override { return coming_.empty(); }
  int completion_fd() const override { return -1; }
  int event_fd() const override { return -1; }
  uint64_t window_bytes() const override { return peer_->window_.size(); }
  void shut_down() override { cut(); }

  // The connection breaks, now.
  void cut() { gone_ = peer_->gone_ = true; }
  // This end is gone. The peer does not notice: it sends into the void, and some of what was on its
  // way still comes.
  void vanish() {
    gone_ = true;
    if (alone_) return;
    std::deque<Operation>& coming = peer_->coming_;
    coming.resize(coming.empty() ? 0 : random_() % (coming.size() + 1));
    for (Operation& each : coming) {
      if (each.is_message) continue;
      each.message.assign(each.from.begin(), each.from.end());  // it has left its memory
      each.from = each.message;
    }
    peer_->alone_ = true;
  }
  // A message as a hostile peer would send it.
  void slip_in(std::vector<std::byte> message) {
    coming_.push_back({{}, 0, 0, std::move(message), true});
  }
  uint64_t messages() const { return messages_; }
  size_t messages_coming() const {
    size_t count = 0;
    for (const Operation& each : coming_) count += each.is_message ? 1 : 0;
    return count;
  }

 private:
  struct Operation {
    std::span<const std::byte> from;
    uint64_t offset = 0, token = 0;
    std::vector<std::byte> message;
    bool is_message = false;
  };

  bool full() { return random_() % 5 == 0 || peer_->coming_.size() > 40; }
  // Some completions of writes that have arrived; the newest may come first.
  int finish(LinkSink* sink) {
    int count = 0;
    while (!finished_.empty() && random_() % 2 == 0) {
      const size_t which = random_() % finished_.size();
      sink->written(finished_[which]);
      finished_.erase(finished_.begin() + static_cast<ptrdiff_t>(which));
      ++count;
    }
    return count;
  }

  std::mt19937_64 random_;
  std::span<std::byte> window_;
  FakeLink* peer_ = nullptr;
  std::deque<Operation> coming_;
  std::deque<uint64_t> finished_;
  uint64_t messages_ = 0;
  size_t receives_ = kReceivesPosted;
  bool gone_ = false;
  bool alone_ = false;  // the peer has vanished
};

}  // namespace vgpu::net::testing

#endif  // VGPU_TESTS_UNIT_NET_FAKE_LINK_H_
