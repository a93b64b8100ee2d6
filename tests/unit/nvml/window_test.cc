// Shares of time from counters: new guests, old samples, counters that lie.
// SPDX-License-Identifier: Apache-2.0
#include "nvml/window.h"

#include <gtest/gtest.h>

namespace vgpu::nvml {
namespace {

constexpr uint64_t kMs = 1'000'000;

protocol::OwnGuest guest(uint64_t session, std::vector<uint64_t> engine_ns, size_t devices = 1) {
  protocol::OwnGuest made;
  made.session = session;
  made.engine_ns = std::move(engine_ns);
  made.uses.resize(devices);
  return made;
}

protocol::FiguresReply at(uint64_t now_ms, std::vector<protocol::OwnGuest> guests) {
  protocol::FiguresReply figures;
  figures.now_ns = now_ms * kMs;
  figures.guests = std::move(guests);
  return figures;
}

TEST(NvmlWindow, OneSampleSaysNothing) {
  Window window;
  EXPECT_TRUE(window.shares().empty());
  window.add(at(10, {guest(1, {5 * kMs, 0, 0})}));
  EXPECT_EQ(window.span_ns(), 0u);
  ASSERT_EQ(window.shares().size(), 1u);
  EXPECT_EQ(window.shares()[0].compute, 0);
}

TEST(NvmlWindow, SharesAreOfTheTimeBetween) {
  Window window;
  window.add(at(1000, {guest(1, {500 * kMs, 0, 0}), guest(2, {0, 0, 0})}));
  window.add(at(1200, {guest(1, {550 * kMs, 20 * kMs, 40 * kMs}), guest(2, {200 * kMs, 0, 0})}));
  EXPECT_EQ(window.span_ns(), 200 * kMs);
  const std::vector<TimeShare> shares = window.shares();
  EXPECT_DOUBLE_EQ(shares[0].compute, 0.25);
  EXPECT_DOUBLE_EQ(shares[0].copies, 0.2);  // the busier direction
  EXPECT_DOUBLE_EQ(shares[1].compute, 1);
}

TEST(NvmlWindow, AGuestThatCameBetweenHasItsWholeTime) {
  Window window;
  window.add(at(1000, {}));
  window.add(at(1100, {guest(7, {30 * kMs, 0, 0})}));
  EXPECT_DOUBLE_EQ(window.shares()[0].compute, 0.3);
}

TEST(NvmlWindow, SeveralDevicesShareTheTime) {
  Window window;
  window.add(at(1000, {guest(1, {0}, 2)}));
  window.add(at(1100, {guest(1, {100 * kMs}, 2)}));
  EXPECT_DOUBLE_EQ(window.shares()[0].compute, 0.5);
}

TEST(NvmlWindow, OldSamplesGo) {
  Window window;
  for (uint64_t second = 0; second < 100; ++second)
    window.add(at(1000 * second, {guest(1, {second < 99 ? 0 : 400 * kMs})}));
  EXPECT_EQ(window.span_ns(), kWindowNs);
  EXPECT_DOUBLE_EQ(window.shares()[0].compute, 0.4);
  for (uint64_t i = 1; i <= 1000; ++i) window.add(at(100'000 + i, {guest(1, {400 * kMs})}));
  EXPECT_LE(window.span_ns(), kWindowNs);
}

TEST(NvmlWindow, CountersThatGoBackwardsOrTooFastStayWithinBounds) {
  Window window;
  window.add(at(1000, {guest(1, {900 * kMs}), guest(2, {0})}));
  window.add(at(1100, {guest(1, {100 * kMs}), guest(2, {~uint64_t{0}})}));
  EXPECT_EQ(window.shares()[0].compute, 0);
  EXPECT_EQ(window.shares()[1].compute, 1);
}

TEST(NvmlWindow, AnotherClockStartsAnew) {
  Window window;
  window.add(at(5000, {guest(1, {900 * kMs})}));
  window.add(at(100, {guest(1, {10 * kMs})}));
  EXPECT_EQ(window.span_ns(), 0u);
  EXPECT_EQ(window.shares()[0].compute, 0);
}

}  // namespace
}  // namespace vgpu::nvml
