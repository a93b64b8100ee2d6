// Guests of a tenant in MPS mode, with a program that stands in for NVIDIA's control daemon: its
// whole life, what workers are told, and how they are ended.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <iterator>
#include <sstream>

#include "base/user_range.h"
#include "tests/lifecycle/tenants_fixture.h"

namespace vgpu::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Mps : public Tenants {
 protected:
  Mps() { setenv("VGPU_MPS_STAND_IN", "1", 1); }
  ~Mps() override {
    server_.reset();  // while the program that stands in for the daemon is there
    unsetenv("VGPU_MPS_STAND_IN");
  }
  void begin(const std::string& program = MPS_CONTROL) {
    // Where the daemon's user may start it.
    const std::string copy = folder_ + "/mps-control";
    std::filesystem::copy_file(program, copy);
    ASSERT_EQ(chmod(copy.c_str(), 0755), 0);
    ASSERT_EQ(chmod(folder_.c_str(), 0711), 0);
    start("[tenant.lab]\n" + mine() + "profiles = [\"plain\", \"shared\"]\n",
          "mps_control = \"" + copy + "\"\n" + R"(
[profile.plain]
memory = "64M"
[profile.shared]
mode = "mps"
thread_percentage = 40
memory = "64M"
)");
  }
  std::string place() const { return server_->path() + ".mps/1"; }
  std::string heard() const { return text_of(place() + "/log/heard"); }
  // Of the daemon: the file beside its folders has its name.
  pid_t daemon() const {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(place(), none)) {
      const std::string name = entry.path().filename();
      const pid_t pid = std::atoi(name.c_str());
      if (pid > 1 && name.find('-') != std::string::npos) return pid;
    }
    return 0;
  }
  // The worker of the guest that has come last.
  static pid_t worker_of(const protocol::Attachment& guest) { return guest.reply.server_pid; }
  static std::vector<std::string> environment_of(pid_t pid) {
    std::istringstream text(text_of("/proc/" + std::to_string(pid) + "/environ"));
    std::vector<std::string> all;
    for (std::string each; std::getline(text, each, '\0');) all.push_back(each);
    return all;
  }
  static bool gone(pid_t pid) { return kill(pid, 0) != 0; }
  std::string terminated(pid_t worker) const {
    return "terminate_client " + std::to_string(daemon()) + " " + std::to_string(worker) +
           "\nlives " + std::to_string(worker) + "\n";
  }
};

TEST_F(Mps, AWorkerIsToldOfItsDaemonBeforeTheDriverIsLoaded) {
  begin();
  const protocol::Attachment guest = attach("shared", 32 * kMiB);
  ASSERT_TRUE(guest.status.ok()) << guest.status.text();
  const auto environment = environment_of(worker_of(guest));
  EXPECT_THAT(environment, Contains("CUDA_MPS_PIPE_DIRECTORY=" + place() + "/pipe"));
  EXPECT_THAT(environment, Contains("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=40"));
  EXPECT_THAT(environment, Contains("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=672M"));
  ASSERT_EQ(list().guests.size(), 1U);
  EXPECT_EQ(list().guests[0].mode, 1);
  EXPECT_EQ(list().guests[0].granted_bytes.at(0), 32 * kMiB);
  EXPECT_THAT(steer(limit(64 * kMiB)), HasSubstr("MPS lets its worker have at most 32 MiB"));
  EXPECT_EQ(steer(limit(16 * kMiB)), "");
  const protocol::Attachment plain = attach("plain");
  ASSERT_TRUE(plain.status.ok());
  for (const std::string& each : environment_of(worker_of(plain)))
    EXPECT_THAT(each, Not(HasSubstr("CUDA_MPS_")));
  EXPECT_EQ(list().guests[1].mode, 0);
}

TEST_F(Mps, WorkersOfATenantHaveOneUserWithTheirDaemon) {
  if (geteuid() != 0) GTEST_SKIP() << "only root's server has users for workers";
  begin();
  const protocol::Attachment one = attach("shared"), two = attach("shared"), other = attach();
  ASSERT_TRUE(one.status.ok() && two.status.ok() && other.status.ok());
  const uid_t user = user_of_process(worker_of(one));
  EXPECT_NE(user, 0U);
  EXPECT_EQ(user_of_process(worker_of(two)), user);
  EXPECT_EQ(user_of_process(daemon()), user);
  EXPECT_NE(user_of_process(worker_of(other)), user);
  for (const char* folder : {"/pipe", "/log"}) {
    struct stat info {};
    ASSERT_EQ(stat((place() + folder).c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, user) << folder;
    EXPECT_EQ(info.st_mode & 0777, 0700U) << folder;
  }
}

TEST_F(Mps, MpsLetsGoOfAClientBeforeItsWorkerIsKilled) {
  begin();
  const protocol::Attachment guest = attach("shared");
  ASSERT_TRUE(guest.status.ok());
  const pid_t worker = worker_of(guest);
  SteerRequest request;
  request.action = SteerAction::kKill;
  request.session = list().guests.at(0).session;
  ASSERT_EQ(steer(request), "");
  EXPECT_TRUE(eventually([&] { return gone(worker); }));
  EXPECT_THAT(heard(), HasSubstr(terminated(worker)));
  EXPECT_TRUE(eventually([&] { return granted() == 0; }));
}

TEST_F(Mps, AWorkerWhoseGuestHasGoneIsEndedInTheSameWay) {
  begin();
  pid_t worker = 0;
  {
    const protocol::Attachment guest = attach("shared");
    ASSERT_TRUE(guest.status.ok());
    worker = worker_of(guest);
  }
  EXPECT_TRUE(eventually([&] { return gone(worker); }));
  EXPECT_THAT(heard(), HasSubstr(terminated(worker)));
}

TEST_F(Mps, AClientThatMpsDoesNotLetGoOfIsKilledAllTheSame) {
  begin();
  const protocol::Attachment guest = attach("shared"), other = attach("plain");
  ASSERT_TRUE(guest.status.ok());
  std::ofstream(place() + "/log/stubborn") << "x";
  const pid_t worker = worker_of(guest);
  SteerRequest request;
  request.action = SteerAction::kKill;
  request.session = list().guests.at(0).session;
  const double before = now_ms();
  ASSERT_EQ(steer(request), "");
  EXPECT_LT(now_ms() - before, 1900) << "the server waited for MPS";
  EXPECT_TRUE(eventually([&] { return gone(worker); }));
  EXPECT_THAT(heard(), HasSubstr("terminate_client"));
  EXPECT_TRUE(attach("plain").status.ok());
}

TEST_F(Mps, ADaemonThatHasDiedIsStartedAgain) {
  begin();
  const protocol::Attachment guest = attach("shared");
  ASSERT_TRUE(guest.status.ok());
  const pid_t first = daemon();
  ASSERT_GT(first, 1);
  ASSERT_EQ(kill(first, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return daemon() > 1 && daemon() != first; }));
  const protocol::Attachment second = attach("shared");
  EXPECT_TRUE(second.status.ok()) << second.status.text();
  EXPECT_EQ(list().guests.size(), 2U);
}

TEST_F(Mps, ItsDaemonEndsWithTheServer) {
  begin();
  const protocol::Attachment guest = attach("shared");
  ASSERT_TRUE(guest.status.ok());
  const pid_t process = daemon(), worker = worker_of(guest);
  EXPECT_EQ(server_->stop(true), 0);
  EXPECT_TRUE(gone(process));
  EXPECT_TRUE(eventually([&] { return gone(worker); }));
  EXPECT_FALSE(std::filesystem::exists(server_->path() + ".mps"));
}

TEST_F(Mps, TheNextServerTakesTheDaemonOverWithItsGuests) {
  begin();
  const protocol::Attachment guest = attach("shared");
  ASSERT_TRUE(guest.status.ok());
  const pid_t process = daemon(), worker = worker_of(guest);
  server_->kill_hard();
  EXPECT_FALSE(gone(process));
  server_->start();
  ASSERT_TRUE(eventually([&] { return list().guests.size() == 1; }));
  EXPECT_EQ(list().guests[0].mode, 1);
  EXPECT_EQ(daemon(), process);
  SteerRequest request;
  request.action = SteerAction::kKill;
  request.session = list().guests.at(0).session;
  ASSERT_EQ(steer(request), "");
  EXPECT_TRUE(eventually([&] { return gone(worker); }));
  EXPECT_THAT(heard(), HasSubstr("lives " + std::to_string(worker)));
}

TEST_F(Mps, ADaemonWithoutGuestsOfAnEarlierServerIsToldToQuit) {
  begin();
  pid_t process = 0, worker = 0;
  {
    const protocol::Attachment guest = attach("shared");
    ASSERT_TRUE(guest.status.ok());
    process = daemon();
    worker = worker_of(guest);
    server_->kill_hard();
  }
  ASSERT_TRUE(eventually([&] { return gone(worker); }));
  server_->start();
  EXPECT_TRUE(eventually([&] { return gone(process); }));
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(place()); }));
}

TEST_F(Mps, ADaemonThatDoesNotStartRefusesItsGuestsAndNobodyElse) {
  begin("/bin/false");
  auto later = std::async(std::launch::async, [this] { return attach("shared"); });
  EXPECT_TRUE(eventually([&] { return list().waiting == 1; }));
  EXPECT_TRUE(attach("plain").status.ok()) << "it is passed over";
  EXPECT_THAT(later.get().status.text(), HasSubstr("MPS daemon of tenant lab does not start"));
  EXPECT_TRUE(attach("plain").status.ok());
}

TEST_F(Mps, ADriverThatCannotIsRefusedAtTheStart) {
  configure("mps_control = \"/bin/false\"\n[profile.shared]\nmode = \"mps\"\n");
  unsetenv("VGPU_MPS_STAND_IN");
  const Finished ended = run_program(
      {VGPUD, "--listen", "unix:" + folder_ + "/s", "--driver", "soft", "--config", config_},
      {std::string("VGPU_SOFT_DRIVER=") + MEMORY_DRIVER});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, HasSubstr("the driver here is soft"));
  configure("mps_control = \"/no/such/program\"\n[profile.shared]\nmode = \"mps\"\n");
  const Finished none = run_program({VGPUD, "--config", config_});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.output, HasSubstr("/no/such/program"));
}

}  // namespace
}  // namespace vgpu::testing
