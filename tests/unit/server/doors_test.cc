// Workers that are found again by their doors.
// SPDX-License-Identifier: Apache-2.0
#include "server/doors.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "protocol/transport/connect.h"

namespace vgpu::server {
namespace {

class DoorsTest : public testing::Test {
 protected:
  DoorsTest() {
    char folder[] = "/tmp/vgpu-doors-XXXXXX";
    root_ = mkdtemp(folder);
  }
  ~DoorsTest() override { std::filesystem::remove_all(root_); }
  std::string socket() const { return root_ + "/vgpud.sock"; }
  std::string folder() const { return socket() + ".workers"; }
  size_t doors() const {
    const auto listing = std::filesystem::directory_iterator(folder());
    return static_cast<size_t>(std::distance(begin(listing), end(listing)));
  }
  std::string root_;
};

TEST_F(DoorsTest, AWorkerIsFoundByItsDoor) {
  Doors first(socket());
  ASSERT_TRUE(first.open().ok());
  auto door = first.make();
  ASSERT_TRUE(door.ok()) << door.status().to_string();
  ASSERT_TRUE(first.name(*door, getpid()).ok());
  const std::vector<FoundWorker> found = Doors(socket()).find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pid, getpid());
  EXPECT_TRUE(protocol::accept_unix(door->listener.get()).ok()) << "somebody knocked";
}

TEST_F(DoorsTest, ADoorWithNobodyBehindIsRemoved) {
  Doors doors(socket());
  ASSERT_TRUE(doors.open().ok());
  auto door = doors.make();
  ASSERT_TRUE(door.ok());
  ASSERT_TRUE(doors.name(*door, getpid()).ok());
  door->listener.reset();
  EXPECT_TRUE(doors.find().empty());
  EXPECT_EQ(this->doors(), 0u);
  doors.close();
  EXPECT_FALSE(std::filesystem::exists(folder()));
}

TEST_F(DoorsTest, ANumberThatIsAnotherProcessNowIsNobody) {
  Doors doors(socket());
  ASSERT_TRUE(doors.open().ok());
  auto door = doors.make();
  ASSERT_TRUE(door.ok());
  const std::string other = folder() + "/" + std::to_string(getpid()) + "-" +
                            std::to_string(start_of_process(getpid()) + 1);
  ASSERT_EQ(rename(door->path.c_str(), other.c_str()), 0);
  EXPECT_TRUE(doors.find().empty());
  EXPECT_EQ(this->doors(), 0u);
}

TEST_F(DoorsTest, NamesThatAreNoneAreNobody) {
  Doors doors(socket());
  ASSERT_TRUE(doors.open().ok());
  for (const char* name : {".v17", "1-1", "-5-7", "x", "12", "12-", "12-13x", "99999999999-1"}) {
    auto door = doors.make();
    ASSERT_TRUE(door.ok());
    ASSERT_EQ(rename(door->path.c_str(), (folder() + "/" + name).c_str()), 0);
    EXPECT_TRUE(doors.find().empty()) << name;
  }
}

TEST_F(DoorsTest, AFolderThatOthersMayEnterIsRefused) {
  ASSERT_EQ(mkdir(folder().c_str(), 0700), 0);
  ASSERT_EQ(chmod(folder().c_str(), 0755), 0);
  EXPECT_EQ(Doors(socket()).open().code(), StatusCode::kPermissionDenied);
  ASSERT_EQ(rmdir(folder().c_str()), 0);
  ASSERT_EQ(symlink("/tmp", folder().c_str()), 0);
  EXPECT_EQ(Doors(socket()).open().code(), StatusCode::kPermissionDenied);
}

TEST(StartOfProcess, IsThatOfThisProcessAndOfNoDeadOne) {
  EXPECT_NE(start_of_process(getpid()), 0u);
  EXPECT_EQ(start_of_process(getpid()), start_of_process(getpid()));
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(start_of_process(child), 0u);
}

}  // namespace
}  // namespace vgpu::server
