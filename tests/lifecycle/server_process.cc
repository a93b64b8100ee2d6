// Starting, asking and ending servers for tests.
// SPDX-License-Identifier: Apache-2.0
#include "tests/lifecycle/server_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/clock.h"

extern char** environ;

namespace vgpu::testing {
namespace {

constexpr double kHangMs = 30'000;

pid_t spawn(const std::vector<std::string>& words, const std::vector<std::string>& environment,
            int output) {
  std::vector<std::string> settings = environment;
  for (char** each = environ; *each != nullptr; ++each) settings.emplace_back(*each);
  std::vector<char*> argv, envp;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  for (std::string& setting : settings) envp.push_back(setting.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output >= 0) {
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    posix_spawn_file_actions_adddup2(&actions, output, 2);
  }
  pid_t pid = 0;
  if (posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), envp.data()) != 0) pid = 0;
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

int exit_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

}  // namespace

double now_ms() { return static_cast<double>(monotonic_ns()) / 1e6; }

bool eventually(const std::function<bool()>& done) {
  const double limit = now_ms() + kHangMs;
  while (!done()) {
    if (now_ms() > limit) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

Finished run_program(const std::vector<std::string>& words,
                     const std::vector<std::string>& environment) {
  int ends[2];
  Finished finished;
  if (pipe2(ends, O_CLOEXEC) != 0) return finished;
  const pid_t pid = spawn(words, environment, ends[1]);
  close(ends[1]);
  char bytes[4096];
  for (ssize_t got; (got = read(ends[0], bytes, sizeof(bytes))) > 0;) {
    finished.output.append(bytes, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  finished.code = exit_code(status);
  return finished;
}

ServerProcess::ServerProcess(std::vector<std::string> arguments, std::string soft_driver)
    : arguments_(std::move(arguments)), soft_driver_(std::move(soft_driver)) {
  char folder[] = "/tmp/vgpu-test-XXXXXX";
  folder_ = mkdtemp(folder);
  path_ = folder_ + "/vgpud.sock";
}

ServerProcess::~ServerProcess() {
  if (pid_ != 0) {
    EXPECT_EQ(stop(true), 0);
  }
  std::filesystem::remove_all(folder_);
}

void ServerProcess::start() {
  std::vector<std::string> words = {VGPUD,  "--listen",    "unix:" + path_, "--driver",
                                    "soft", "--log-level", "debug"};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  pid_ = spawn(words, {"VGPU_SOFT_DRIVER=" + soft_driver_}, -1);
  (void)eventually([this] {
    auto reply = info();
    return reply && !reply->devices.empty();
  });
}

void ServerProcess::kill_hard() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

int ServerProcess::stop(bool force) {
  (void)ask(protocol::StopRequest{force});
  int status = 0;
  const bool ended = eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
  if (!ended) kill_hard();
  pid_ = 0;
  return ended ? exit_code(status) : -1;
}

std::optional<protocol::Message> ServerProcess::ask(const protocol::Message& question) const {
  auto connection = protocol::connect_unix(path_);
  if (!connection.ok() || !protocol::send_message(connection->get(), question).ok()) {
    return std::nullopt;
  }
  auto received = protocol::receive_message(connection->get(), 10'000);
  if (!received.ok()) return std::nullopt;
  return std::move(received->message);
}

std::optional<protocol::InfoReply> ServerProcess::info() const {
  auto message = ask(protocol::InfoRequest{});
  if (!message || std::get_if<protocol::InfoReply>(&*message) == nullptr) return std::nullopt;
  return std::get<protocol::InfoReply>(*message);
}

}  // namespace vgpu::testing
