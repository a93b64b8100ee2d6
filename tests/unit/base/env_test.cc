// Settings as people write them, and as they must not.
// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace vgpu {
namespace {

TEST(EnvTest, Sizes) {
  EXPECT_EQ(parse_size("0"), 0U);
  EXPECT_EQ(parse_size("4096"), 4096U);
  EXPECT_EQ(parse_size("512M"), uint64_t{512} << 20);
  EXPECT_EQ(parse_size("4GiB"), uint64_t{4} << 30);
  EXPECT_EQ(parse_size(" 2 kb "), 2048U);
  EXPECT_EQ(parse_size("1.5G"), uint64_t{3} << 29);
  EXPECT_EQ(parse_size("18446744073709551615"), ~uint64_t{0});
}

TEST(EnvTest, NotSizes) {
  for (const char* text : {"", "M", "-1", "4X", "4MM", "1.G", "0.5", "1e3", "18446744073709551616",
                           "16777216T", "4 G iB", "0x10"}) {
    EXPECT_EQ(parse_size(text), std::nullopt) << '"' << text << '"';
  }
}

TEST(EnvTest, Integers) {
  EXPECT_EQ(parse_integer("-12"), -12);
  EXPECT_EQ(parse_integer("0xff"), 255);
  for (const char* text : {"", "1 2", "12a", "0x", "0x-1", "9223372036854775808"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << '"' << text << '"';
  }
}

TEST(EnvTest, Booleans) {
  EXPECT_EQ(parse_bool("ON"), true);
  EXPECT_EQ(parse_bool("no"), false);
  EXPECT_EQ(parse_bool("maybe"), std::nullopt);
}

TEST(EnvTest, UnreadableVariableGivesTheFallback) {
  ::setenv("VGPU_TEST_SETTING", "lots", 1);
  EXPECT_EQ(env_size("VGPU_TEST_SETTING", 5), 5U);
  ::setenv("VGPU_TEST_SETTING", "3K", 1);
  EXPECT_EQ(env_size("VGPU_TEST_SETTING", 5), 3072U);
  ::setenv("VGPU_TEST_SETTING", "", 1);
  EXPECT_TRUE(env_bool("VGPU_TEST_SETTING", true));
  ::unsetenv("VGPU_TEST_SETTING");
  EXPECT_EQ(env_integer("VGPU_TEST_SETTING", -3), -3);
}

}  // namespace
}  // namespace vgpu
