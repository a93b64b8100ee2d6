// Workers whose guests run code of their own in them reach nothing and nobody.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "tests/attacks/report.h"
#include "tests/lifecycle/server_process.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// Every worker of the server is taken over when its guest comes.
class TakenOver : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer must be the first library";
#endif
    if (syscall(SYS_landlock_create_ruleset, nullptr, 0, 1) < 1)
      GTEST_SKIP() << "without Landlock the user's rights decide what is read";
    char path[] = "/tmp/vgpu-attack-XXXXXX";
    UniqueFd file(mkstemp(path));
    ASSERT_TRUE(file.valid());
    path_ = path;
    ASSERT_EQ(ftruncate(file.get(), sizeof(Report)), 0);
    void* memory = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    ASSERT_NE(memory, MAP_FAILED);
    report_ = static_cast<Report*>(memory);
    server_ = std::make_unique<ServerProcess>();
    setenv(kReportVariable, path, 1);
    setenv(kSocketVariable, server_->path().c_str(), 1);
    setenv("LD_PRELOAD", TAKEN_OVER, 1);
    server_->start();
    unsetenv("LD_PRELOAD");
    ASSERT_TRUE(server_->info().has_value());
  }
  void TearDown() override {
    server_.reset();
    if (report_ != nullptr) munmap(report_, sizeof(Report));
    unlink(path_.c_str());
  }
  std::string path_;
  Report* report_ = nullptr;
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(TakenOver, ReachesNothing) {
  constexpr uint32_t kGuests = 4;
  for (uint32_t i = 0; i < kGuests; ++i) {
    protocol::Attachment own = protocol::attach(server_->address(), test_hello(64 * kMiB), 20'000);
    ASSERT_TRUE(own.status.ok()) << own.status.to_string();
    Guest guest(own.channel.get());
    guest.enter_context();
    const uint64_t base = own.reply.device_range.base;
    ASSERT_EQ(guest.map(base, 2 * kMiB), 0);
    guest.write_inline(base, "served all the same");
    EXPECT_EQ(guest.read(base, 6), "served");
    ASSERT_TRUE(server_->info().has_value()) << "the server goes on";
  }
  EXPECT_GE(report_->workers, kGuests);
  EXPECT_GE(report_->tried, kGuests * 35);
  EXPECT_EQ(std::string(report_->reached, std::min(report_->bytes.load(), kReportTextBytes)), "");
  EXPECT_TRUE(eventually([&] { return server_->info()->guests.empty(); }));
  EXPECT_EQ(server_->info()->devices[0].granted_bytes, 0u);
}

}  // namespace
}  // namespace vgpu::testing
