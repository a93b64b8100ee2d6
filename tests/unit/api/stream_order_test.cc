// Which streams follow which, as memory pools see it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "api/pools/pool.h"

namespace vgpu {
namespace {

StreamPlace place(uint64_t stream, uint64_t number = 0) {
  StreamPlace made;
  made.context = 1;
  made.stream = stream;
  made.number = number;
  return made;
}

TEST(StreamOrder, AStreamFollowsItself) {
  StreamOrder order;
  EXPECT_TRUE(order.follows(place(5), place(5, 100)));
  EXPECT_FALSE(order.follows(place(6), place(5, 0)));
  StreamPlace other = place(5);
  other.context = 2;
  EXPECT_FALSE(order.follows(other, place(5)));
}

TEST(StreamOrder, AnEventOrdersWhatWasBeforeIt) {
  StreamOrder order;
  order.follow(place(6), 1, 5, 10);
  EXPECT_TRUE(order.follows(place(6), place(5, 10)));
  EXPECT_FALSE(order.follows(place(6), place(5, 11)));
  EXPECT_FALSE(order.follows(place(5), place(6, 1)));
  order.follow(place(6), 1, 5, 3);  // an older one takes nothing back
  EXPECT_TRUE(order.follows(place(6), place(5, 10)));
  StreamPlace behind_legacy = place(5, 4);
  behind_legacy.legacy_number = 12;
  EXPECT_FALSE(order.follows(place(6), behind_legacy));
}

TEST(StreamOrder, TheLegacyStreamAndBlockingOnesFollowEachOther) {
  StreamOrder order;
  StreamPlace legacy = place(1), blocking = place(5), apart = place(6);
  legacy.legacy = legacy.blocking = blocking.blocking = true;
  EXPECT_TRUE(order.follows(legacy, blocking));
  EXPECT_TRUE(order.follows(blocking, legacy));
  EXPECT_FALSE(order.follows(apart, legacy));
  EXPECT_FALSE(order.follows(legacy, apart));
}

// Streams come and go without end; what is forgotten is only not used.
TEST(StreamOrder, ForgetsInTheEnd) {
  StreamOrder order;
  order.follow(place(6), 1, 5, 10);
  for (uint64_t stream = 100; stream < 10'000; ++stream) order.follow(place(stream), 1, 5, 10);
  EXPECT_FALSE(order.follows(place(6), place(5, 10)));
  EXPECT_TRUE(order.follows(place(9'999), place(5, 10)));
}

}  // namespace
}  // namespace vgpu
