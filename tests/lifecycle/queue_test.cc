// Guests that wait for a worker, and a server that cannot start one.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <set>

#include "tests/lifecycle/tenants_fixture.h"

namespace vgpu::testing {
namespace {

using ::testing::HasSubstr;

// Three users of workers: two guests run and one worker waits, or three guests run.
class Queue : public Tenants {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root's server has users for workers";
    start("", kProfiles,
          {"--worker-users", std::to_string(first_) + "-" + std::to_string(first_ + 2),
           "--workers-ahead", "1"});
    for (int i = 0; i < 3; ++i) {
      running_.push_back(attach("small"));
      ASSERT_TRUE(running_.back().status.ok()) << running_.back().status.text();
    }
  }
  std::future<protocol::Attachment> attach_later() {
    return std::async(std::launch::async, [this] { return attach("small"); });
  }
  bool waiting(uint32_t number) const {
    return eventually([&] { return list().waiting == number; });
  }

  // Of this test's process alone: others may run beside it.
  const uid_t first_ = 1'600'000'000 + 4 * static_cast<uid_t>(getpid());
  std::vector<protocol::Attachment> running_;
};

TEST_F(Queue, NoWorkerRunsAsRootWhenTheUsersAreUsedUp) {
  auto later = attach_later();
  ASSERT_TRUE(waiting(1));
  EXPECT_EQ(list().guests.size(), 3U);
  running_.pop_back();
  const protocol::Attachment fourth = later.get();
  EXPECT_TRUE(fourth.status.ok()) << "a number is free again: " << fourth.status.text();
}

TEST_F(Queue, DrainingRefusesThoseWhoWait) {
  auto later = attach_later();
  ASSERT_TRUE(waiting(1));
  SteerRequest request;
  request.action = SteerAction::kDrain;
  ASSERT_EQ(steer(request), "");
  EXPECT_THAT(later.get().status.text(), HasSubstr("draining"));
  EXPECT_TRUE(waiting(0));
}

TEST_F(Queue, WhoHasHungUpIsNotServed) {
  {
    const auto connection = protocol::connect_unix(server_->path());
    ASSERT_TRUE(connection.ok());
    protocol::Hello hello = test_hello(0);
    hello.profile = "whole";  // would be refused: others are on the device
    ASSERT_TRUE(protocol::send_message(connection->get(), hello).ok());
    ASSERT_TRUE(waiting(1));
  }
  auto later = attach_later();
  EXPECT_TRUE(waiting(1)) << "the one that has gone makes room for the one that came";
  running_.pop_back();
  EXPECT_TRUE(later.get().status.ok());
}

TEST(WorkerUsers, TooFewAreRefusedAtTheStart) {
  if (geteuid() != 0) GTEST_SKIP() << "only root's server has users for workers";
  const Finished ended = run_program({VGPUD, "--worker-users", "61000-61001"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output, HasSubstr("worker-users"));
}

// Of all processes with a user from `first` to `last`.
std::multiset<uid_t> users_between(uid_t first, uid_t last) {
  std::multiset<uid_t> users;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    struct stat info {};
    if (stat(entry.path().c_str(), &info) != 0) continue;
    if (info.st_uid >= first && info.st_uid <= last) users.insert(info.st_uid);
  }
  return users;
}

TEST_F(Queue, TheNextServerGivesNoWorkerTheUserOfALivingOne) {
  running_.resize(1);
  server_->kill_hard();
  server_->start();
  const protocol::Attachment second = attach("small");
  ASSERT_TRUE(second.status.ok());
  // Those that had no guest any more may still be ending.
  EXPECT_TRUE(eventually([&] {
    const auto users = users_between(first_, first_ + 2);
    return users.size() == 3 && std::set<uid_t>(users.begin(), users.end()).size() == 3;
  }));
}

class Adopted : public Tenants {
 protected:
  Adopted() { setenv("MEMORY_DRIVER_DEVICES", "2", 1); }
  ~Adopted() override { unsetenv("MEMORY_DRIVER_DEVICES"); }
};

// The next server serves one device only, and says of the guest what it has of that.
TEST_F(Adopted, GuestsOfDevicesThatAreNotServedAreListed) {
  start("");
  const protocol::Attachment guest = attach("small");
  ASSERT_TRUE(guest.status.ok());
  ASSERT_EQ(list().guests.at(0).devices.size(), 2U);
  server_->kill_hard();
  setenv("MEMORY_DRIVER_DEVICES", "1", 1);
  server_->start();
  ASSERT_TRUE(eventually([&] { return list().guests.size() == 1; }));
  EXPECT_TRUE(eventually([&] { return list().guests.at(0).devices.size() == 1; }));
}

}  // namespace
}  // namespace vgpu::testing
