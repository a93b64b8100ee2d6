// A server with profiles and tenants, and what its operator and its guests ask of it.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_LIFECYCLE_TENANTS_FIXTURE_H_
#define VGPU_TESTS_LIFECYCLE_TENANTS_FIXTURE_H_

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/lifecycle/server_process.h"
#include "tests/support/guest.h"

namespace vgpu::testing {

using protocol::GuestsReply;
using protocol::GuestState;
using protocol::SteerAction;
using protocol::SteerReply;
using protocol::SteerRequest;

inline constexpr uint64_t kMiB = 1 << 20;
inline constexpr uid_t kForeign = 23456;  // nobody's
inline constexpr char kToken[] = "a-token-for-the-lab-only";

inline constexpr char kProfiles[] = R"(
[profile.small]
memory = "64M"
weight = 50
[profile.large]
memory = "256M"
weight = 400
priority = "latency"
[profile.whole]
exclusive = true
)";

class Tenants : public ::testing::Test {
 protected:
  Tenants() {
    char name[] = "/tmp/vgpu-tenants-XXXXXX";
    folder_ = mkdtemp(name);
    config_ = folder_ + "/vgpud.toml";
  }
  ~Tenants() override { std::filesystem::remove_all(folder_); }

  // A server with these profiles and tenants, which this test's user is one of.
  void start(const std::string& tenants, const std::string& profiles = kProfiles,
             const std::vector<std::string>& more = {}) {
    configure(profiles + tenants);
    std::vector<std::string> words = {"--config", config_, "--socket-mode", "0666"};
    words.insert(words.end(), more.begin(), more.end());
    server_ = std::make_unique<ServerProcess>(words, driver_);
    server_->start();
    ASSERT_TRUE(eventually([&] { return !list().devices.empty(); }));
    // Others may look through the folder, but not list it.
    const std::string place = std::filesystem::path(server_->path()).parent_path();
    ASSERT_EQ(chmod(place.c_str(), 0711), 0);
  }
  void configure(const std::string& text) { std::ofstream(config_) << text; }
  std::string mine() const { return "uids = [" + std::to_string(getuid()) + "]\n"; }

  protocol::Attachment attach(const std::string& profile = "", uint64_t bytes = 0,
                              uint32_t weight = 0, const std::string& token = "") {
    protocol::Hello hello = test_hello(bytes);
    hello.profile = profile;
    hello.weight = weight;
    hello.token = token;
    return protocol::attach(server_->address(), hello, 20'000);
  }
  GuestsReply list() const {
    GuestsReply all;
    for (uint64_t after = 0;;) {
      const auto answer = server_->ask(protocol::GuestsRequest{after});
      const auto* page = answer ? std::get_if<GuestsReply>(&*answer) : nullptr;
      if (page == nullptr) return all;
      all.devices = page->devices;
      all.draining = page->draining;
      all.waiting = page->waiting;
      all.guests.insert(all.guests.end(), page->guests.begin(), page->guests.end());
      if (!page->more) return all;
      after = all.guests.back().session;
    }
  }
  // "" when the server did it, else why not.
  std::string steer(const SteerRequest& request, SteerReply* reply = nullptr) const {
    const auto answer = server_->ask(request);
    if (!answer) return "no answer";
    if (const auto* refusal = std::get_if<protocol::Refusal>(&*answer)) return refusal->text;
    const auto* done = std::get_if<SteerReply>(&*answer);
    if (done == nullptr) return "another answer";
    if (reply != nullptr) *reply = *done;
    return "";
  }
  SteerRequest limit(uint64_t bytes, uint32_t weight = 0) const {
    SteerRequest request;
    request.session = list().guests.at(0).session;
    request.memory_bytes = bytes;
    request.weight = weight;
    return request;
  }
  uint64_t granted() const { return list().devices.at(0).granted_bytes; }

  // Runs `body` in a child of another user and group; its exit code.
  template <typename Body>
  int as_foreign(Body body) {
    const pid_t child = fork();
    if (child == 0) {
      if (setgroups(0, nullptr) != 0 || setgid(kForeign) != 0 || setuid(kForeign) != 0) _exit(99);
      _exit(body());
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string driver_ = MEMORY_DRIVER;
  std::string folder_, config_;
  std::unique_ptr<ServerProcess> server_;
};

}  // namespace vgpu::testing

#endif  // VGPU_TESTS_LIFECYCLE_TENANTS_FIXTURE_H_
