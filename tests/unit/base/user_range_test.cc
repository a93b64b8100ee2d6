// Numbers of users for processes.
// SPDX-License-Identifier: Apache-2.0
#include "base/user_range.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace vgpu {
namespace {

TEST(UserRange, EachIsGivenOnceUntilAllWere) {
  UserRange users(10, 12);
  EXPECT_EQ(users.take(), 10u);
  EXPECT_EQ(users.take(), 11u);
  users.give_back(10);
  EXPECT_EQ(users.take(), 12u) << "what one had is not the next one's at once";
  EXPECT_EQ(users.take(), 10u);
  EXPECT_EQ(users.take(), 0u) << "all are taken";
  users.give_back(11);
  EXPECT_EQ(users.take(), 11u);
}

TEST(UserRange, KeepsWhatWorkersOfAnEarlierServerHave) {
  UserRange users(10, 11);
  users.keep(10);
  users.keep(5);
  EXPECT_EQ(users.take(), 11u);
  EXPECT_EQ(users.take(), 0u);
}

TEST(UserRange, NoneGivesNone) {
  UserRange users;
  EXPECT_FALSE(users.any());
  EXPECT_EQ(users.take(), 0u);
}

TEST(UserRange, APartIsCutOffForOthers) {
  UserRange users(1, 100);
  const UserRange cut = users.cut(25);
  EXPECT_EQ(cut.text(), "76-100");
  EXPECT_EQ(users.count(), 75U);
  EXPECT_FALSE(users.cut(25).any()) << "it would leave too few";
  EXPECT_EQ(users.count(), 75U);
}

TEST(UserRange, Parse) {
  EXPECT_FALSE(UserRange::parse("none")->any());
  EXPECT_EQ(UserRange::parse("60000-60001")->take(), 60000u);
  EXPECT_EQ(UserRange::parse("60000")->take(), 60000u);
  for (const char* wrong : {"", "0-5", "7-6", "x", "1-x", "1-4294967295", "-5", "1-2-3"})
    EXPECT_FALSE(UserRange::parse(wrong).ok()) << wrong;
}

TEST(UserRange, AContainersMapSaysWhoIsThere) {
  EXPECT_TRUE(is_mapped("         0          0 4294967295\n", kWorkerUserFirst));
  const std::string rootless =
      "         0       1000          1\n         1     100000      65536\n";
  EXPECT_TRUE(is_mapped(rootless, 0));
  EXPECT_TRUE(is_mapped(rootless, 65536));
  EXPECT_FALSE(is_mapped(rootless, 65537));
  EXPECT_FALSE(is_mapped("", 0));
}

TEST(UserRange, WhoseProcess) { EXPECT_EQ(user_of_process(getpid()), geteuid()); }

}  // namespace
}  // namespace vgpu
