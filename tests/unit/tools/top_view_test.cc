// What vgpu top shows of two listings.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/vgpu/guests.h"
#include "tools/vgpu/table.h"

namespace vgpu::tools {
namespace {

using protocol::GuestsReply;
using protocol::GuestState;
using ::testing::HasSubstr;

constexpr uint64_t kSecond = 1'000'000'000, kMiB = 1 << 20;

GuestState guest(uint64_t session, const std::string& name, uint32_t weight, uint64_t compute_ns,
                 uint64_t wait_ns = 0) {
  GuestState state;
  state.session = session;
  state.pid = static_cast<int32_t>(1000 + session);
  state.label = name;
  state.devices = {0};
  state.granted_bytes = {64 * kMiB};
  state.used_bytes = {session * kMiB};
  state.weight = weight;
  state.cap_permille = 1000;
  state.priority = 2;
  state.device_ns[0] = compute_ns;
  state.wait_ns = wait_ns;
  return state;
}

GuestsReply listing(std::vector<GuestState> guests) {
  GuestsReply reply;
  reply.devices.push_back({"A device", "GPU-x", 1024 * kMiB, 1000 * kMiB, 128 * kMiB});
  reply.guests = std::move(guests);
  return reply;
}

std::vector<std::string> names(const TopView& view) {
  std::vector<std::string> all;
  for (const GuestRates& each : view.rows()) all.push_back(each.state.label);
  return all;
}

TEST(TopView, RatesAreOfTheTimeBetweenTwoListings) {
  TopView view;
  view.take(listing({guest(1, "a", 300, 5 * kSecond), guest(2, "b", 100, 0)}), 10 * kSecond);
  EXPECT_EQ(view.rows()[0].compute, 0) << "nothing is known of the time before";
  view.take(listing({guest(1, "a", 300, 6 * kSecond), guest(2, "b", 100, kSecond / 2, kSecond)}),
            12 * kSecond);
  const auto rows = view.rows();
  EXPECT_DOUBLE_EQ(rows[0].compute, 0.5);
  EXPECT_DOUBLE_EQ(rows[1].compute, 0.25);
  EXPECT_DOUBLE_EQ(rows[1].waiting, 0.5);
  EXPECT_DOUBLE_EQ(rows[0].entitled, 0.75);
  EXPECT_DOUBLE_EQ(rows[1].entitled, 0.25);
}

TEST(TopView, WhoWantsNothingIsDueNothingAndTheOthersMore) {
  TopView view;
  view.take(listing({guest(1, "a", 100, 0), guest(2, "idle", 900, 0)}), kSecond);
  view.take(listing({guest(1, "a", 100, kSecond), guest(2, "idle", 900, 0)}), 2 * kSecond);
  EXPECT_DOUBLE_EQ(view.rows()[0].entitled, 1);
  EXPECT_DOUBLE_EQ(view.rows()[1].entitled, 0);
}

TEST(TopView, FiguresThatFallOrAreAbsurdBreakNothing) {
  TopView view;
  view.take(listing({guest(1, "a", 0, UINT64_MAX)}), kSecond);
  view.take(listing({guest(1, "a", 0, 5)}), 2 * kSecond);
  EXPECT_EQ(view.rows()[0].compute, 0);
  view.take(listing({guest(1, "a", 0, UINT64_MAX)}), 2 * kSecond);
  view.take(listing({guest(1, "a", 0, UINT64_MAX)}), 1 * kSecond);
  EXPECT_THAT(view.picture(200, 24, "", true), HasSubstr("a"));
}

TEST(TopView, OrderSelectionAndWhatGoes) {
  TopView view;
  view.take(listing({guest(1, "zoe", 5, 0), guest(2, "bob", 9, 0), guest(3, "amy", 1, 0)}),
            kSecond);
  EXPECT_EQ(view.selected(), 1U);
  view.next_order();  // memory
  EXPECT_EQ(names(view), (std::vector<std::string>{"amy", "bob", "zoe"}));
  view.next_order();  // wait
  view.next_order();  // weight
  EXPECT_EQ(names(view), (std::vector<std::string>{"bob", "zoe", "amy"}));
  view.next_order();  // name
  EXPECT_EQ(names(view), (std::vector<std::string>{"amy", "bob", "zoe"}));
  view.reverse();
  EXPECT_EQ(names(view), (std::vector<std::string>{"zoe", "bob", "amy"}));
  view.move(1);
  EXPECT_EQ(view.selected(), 2U);
  view.move(99);
  EXPECT_EQ(view.selected(), 3U);
  view.move(-99);
  EXPECT_EQ(view.selected(), 1U);
  view.take(listing({guest(2, "bob", 9, 0)}), 2 * kSecond);
  EXPECT_EQ(view.selected(), 2U) << "the chosen one has gone";
  view.take(listing({}), 3 * kSecond);
  EXPECT_EQ(view.selected(), 0U);
  view.move(1);
}

TEST(TopView, ThePictureFitsItsScreen) {
  TopView view;
  std::vector<GuestState> many;
  for (uint64_t i = 1; i <= 100; ++i)
    many.push_back(guest(i, "a name that is much too long", 1, 0));
  view.take(listing(many), kSecond);
  for (const auto& [columns, lines] :
       {std::pair<size_t, size_t>{80, 24}, {20, 5}, {1, 1}, {300, 200}}) {
    const std::string picture = view.picture(columns, lines, "the note", true);
    size_t seen = 1, width = 0;
    for (size_t at = 0; at < picture.size();) {
      const size_t end = std::min(picture.find('\n', at), picture.size());
      width = std::max(width, display_width(picture.substr(at, end - at)));
      if (end < picture.size()) ++seen;
      at = end + 1;
    }
    EXPECT_LE(width, columns);
    EXPECT_LE(seen, lines);
  }
}

TEST(TopView, SparklinesAndBars) {
  EXPECT_EQ(sparkline({0, 0.5, 1}, 5, true), "   ▄█");
  EXPECT_EQ(sparkline({0, 0.5, 1}, 3, false), " :#");
  EXPECT_EQ(sparkline({5, -3, 0.0 / 0.0}, 3, true), "█  ");
  EXPECT_EQ(sparkline({}, 2, true), "  ");
  EXPECT_EQ(bar(0.5, 4), "[##  ]");
  EXPECT_EQ(bar(7, 4), "[####]");
  EXPECT_EQ(cut_to("▄█▄", 2), "▄█");
}

TEST(FindGuest, ByNumberProcessOrName) {
  const GuestsReply guests =
      listing({guest(1, "amy", 1, 0), guest(2, "bob", 1, 0), guest(3, "bob", 1, 0)});
  std::string why;
  EXPECT_EQ(find_guest(guests, "2", &why)->session, 2U);
  EXPECT_EQ(find_guest(guests, "1003", &why)->session, 3U);
  EXPECT_EQ(find_guest(guests, "amy", &why)->session, 1U);
  EXPECT_EQ(find_guest(guests, "bob", &why), nullptr);
  EXPECT_THAT(why, HasSubstr("2 guests"));
  EXPECT_EQ(find_guest(guests, "eve", &why), nullptr);
  EXPECT_THAT(why, HasSubstr("no guest"));
  EXPECT_EQ(find_guest(guests, "", &why), nullptr);
}

}  // namespace
}  // namespace vgpu::tools
