// Where kernels reach their worker's own memory, one server has one tenant.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/lifecycle/server_process.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

using ::testing::HasSubstr;

class Separation : public ::testing::Test {
 protected:
  Separation() {
    char name[] = "/tmp/vgpu-separation-XXXXXX";
    folder_ = mkdtemp(name);
    config_ = folder_ + "/vgpud.toml";
    setenv("MEMORY_DRIVER_HMM", "1", 1);
  }
  ~Separation() override {
    unsetenv("MEMORY_DRIVER_HMM");
    std::filesystem::remove_all(folder_);
  }

  void configure(bool second) {
    std::ofstream file(config_);
    file << "[profile.small]\nmemory = \"64M\"\n[tenant.us]\nuids = [" << getuid() << "]\n";
    if (second) file << "[profile.other]\nmemory = \"8M\"\n[tenant.them]\nuids = [23456]\n";
  }
  protocol::Attachment attach(const ServerProcess& server, const std::string& profile) {
    protocol::Hello hello = test_hello(0);
    hello.profile = profile;
    return protocol::attach(server.address(), hello, 20'000);
  }

  std::string folder_, config_;
};

TEST_F(Separation, AServerOfSeveralTenantsRefusesToStart) {
  configure(true);
  const Finished ended = run_program(
      {VGPUD, "--listen", "unix:" + folder_ + "/s", "--driver", "soft", "--config", config_},
      {std::string("VGPU_SOFT_DRIVER=") + MEMORY_DRIVER});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, HasSubstr("uvm_disable_hmm=1"));
}

TEST_F(Separation, OneTenantIsServedAndASecondIsNotTakenIn) {
  configure(false);
  ServerProcess server({"--config", config_});
  server.start();
  EXPECT_TRUE(attach(server, "small").status.ok());
  configure(true);
  kill(server.pid(), SIGHUP);
  // Its answer to anything that comes later shows that it has read, and kept, what it had.
  EXPECT_THAT(attach(server, "other").status.text(), HasSubstr("may not have profile 'other'"));
  EXPECT_TRUE(attach(server, "small").status.ok());
}

TEST_F(Separation, TheOperatorMaySayOtherwise) {
  configure(true);
  ServerProcess server({"--config", config_, "--tenants-reach-host-memory"});
  server.start();
  EXPECT_TRUE(attach(server, "other").status.ok());
}

}  // namespace
}  // namespace vgpu::testing
