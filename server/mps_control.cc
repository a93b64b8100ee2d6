// Running the control program and reading what it says.
// SPDX-License-Identifier: Apache-2.0
#include "server/mps_control.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <sstream>
#include <utility>

#include "base/clock.h"
#include "base/env.h"
#include "base/unique_fd.h"
#include "server/run_as.h"

namespace vgpu::server {
namespace {

constexpr int kPollMs = 20;  // between two looks whether a client is gone

uint64_t deadline_in(int ms) {
  return monotonic_ns() + static_cast<uint64_t>(std::max(0, ms)) * 1'000'000;
}

int left_ms(uint64_t deadline_ns) {
  const uint64_t now = monotonic_ns();
  return now >= deadline_ns ? 0 : static_cast<int>((deadline_ns - now + 999'999) / 1'000'000);
}

// The program with our end of its standard input and output. Killed when it goes out of scope
// unless it was waited for.
struct Child {
  pid_t pid = 0;
  UniqueFd words;
  Child() = default;
  Child(Child&& other) noexcept : pid(std::exchange(other.pid, 0)), words(std::move(other.words)) {}
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid == 0) return;
    (void)kill(-pid, SIGKILL);  // its session: also what a script has started
    (void)waitpid(pid, nullptr, 0);
  }
};

Result<Child> start(const std::string& program, std::vector<std::string> settings, uid_t user) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return Status::from_errno(errno, "socketpair");
  Child child;
  child.words.reset(pair[0]);
  const UniqueFd theirs(pair[1]);
  Program wanted;
  wanted.path = program;
  wanted.settings = std::move(settings);
  wanted.user = user;
  wanted.input = wanted.output = theirs.get();
  Result<pid_t> pid = run_as(wanted);
  if (!pid.ok()) return pid.status();
  child.pid = *pid;
  return child;
}

Status timed_out(const std::string& command) {
  return Status(StatusCode::kTimedOut, "the MPS control program does not answer: " + command);
}

// Everything that it says until it closes its output.
Result<std::string> read_all(int fd, const std::string& command, uint64_t deadline_ns) {
  std::string answer;
  while (true) {
    pollfd readable{fd, POLLIN, 0};
    const int left = left_ms(deadline_ns);
    if (left == 0 || poll(&readable, 1, left) == 0) return timed_out(command);
    char part[4096];
    const ssize_t bytes = recv(fd, part, sizeof(part), MSG_DONTWAIT);
    if (bytes == 0 || (bytes < 0 && errno == ECONNRESET)) return answer;
    if (bytes < 0 && errno != EAGAIN && errno != EINTR)
      return Status::from_errno(errno, "MPS control");
    if (bytes > 0) answer.append(part, static_cast<size_t>(bytes));
    if (answer.size() > kMpsAnswerBytesMax)
      return Status(StatusCode::kMalformed, "the MPS control program says too much: " + command);
  }
}

// It may close its output and go on.
Status wait_for_end(Child* child, const std::string& command, uint64_t deadline_ns) {
  int status = 0;
  while (waitpid(child->pid, &status, WNOHANG) == 0) {
    if (left_ms(deadline_ns) == 0) return timed_out(command);
    (void)poll(nullptr, 0, 1);
  }
  child->pid = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ok_status();
  return Status(StatusCode::kUnavailable, "the MPS control program failed: " + command);
}

}  // namespace

Result<std::vector<pid_t>> parse_mps_pids(const std::string& answer) {
  std::vector<pid_t> pids;
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const bool digits = line.find_first_not_of("0123456789") == std::string::npos;
    const auto number = parse_integer(line);
    if (!digits || !number || *number <= 1 || *number > INT32_MAX || pids.size() == kMpsPidsMax)
      return Status(StatusCode::kMalformed, "the MPS control program lists what is no process");
    pids.push_back(static_cast<pid_t>(*number));
  }
  return pids;
}

// Nothing of ours: which daemon it speaks to must hang on these two alone.
std::vector<std::string> MpsControl::settings() const {
  return {"PATH=/usr/bin:/bin", "CUDA_MPS_PIPE_DIRECTORY=" + pipe_directory_,
          "CUDA_MPS_LOG_DIRECTORY=" + log_directory_};
}

Result<std::string> MpsControl::ask(const std::string& command, uint64_t deadline_ns) const {
  Result<Child> child = start(program_, settings(), user_);
  if (!child.ok()) return child.status();
  const std::string line = command + "\n";
  // A few bytes always fit; one that has ended already is known by its exit code.
  (void)send(child->words.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)shutdown(child->words.get(), SHUT_WR);
  Result<std::string> answer = read_all(child->words.get(), command, deadline_ns);
  if (!answer.ok()) return answer.status();
  VGPU_RETURN_IF_ERROR(wait_for_end(&*child, command, deadline_ns));
  return answer;
}

Result<std::vector<pid_t>> MpsControl::ask_pids(const std::string& command,
                                                uint64_t deadline_ns) const {
  const Result<std::string> answer = ask(command, deadline_ns);
  if (!answer.ok()) return answer.status();
  return parse_mps_pids(*answer);
}

Result<std::vector<pid_t>> MpsControl::servers(int timeout_ms) const {
  return ask_pids("get_server_list", deadline_in(timeout_ms));
}

Result<std::vector<pid_t>> MpsControl::clients(pid_t server, int timeout_ms) const {
  return ask_pids("get_client_list " + std::to_string(server), deadline_in(timeout_ms));
}

Result<pid_t> MpsControl::server_of(pid_t client, uint64_t deadline_ns) const {
  const Result<std::vector<pid_t>> servers = ask_pids("get_server_list", deadline_ns);
  if (!servers.ok()) return servers.status();
  for (const pid_t server : *servers) {
    const Result<std::vector<pid_t>> clients =
        ask_pids("get_client_list " + std::to_string(server), deadline_ns);
    if (!clients.ok()) return clients.status();
    if (std::find(clients->begin(), clients->end(), client) != clients->end()) return server;
  }
  return pid_t{0};
}

Status MpsControl::end_client(pid_t client, int timeout_ms) const {
  const uint64_t deadline = deadline_in(timeout_ms);
  Result<pid_t> server = server_of(client, deadline);
  if (!server.ok()) return server.status();
  if (*server == 0) return ok_status();
  // What it answers is not documented; that the client is gone from the lists is.
  const Result<std::string> answer =
      ask("terminate_client " + std::to_string(*server) + " " + std::to_string(client), deadline);
  if (!answer.ok()) return answer.status();
  while (true) {
    server = server_of(client, deadline);
    if (!server.ok()) return server.status();
    if (*server == 0) return ok_status();
    if (left_ms(deadline) == 0) return timed_out("terminate_client");
    (void)poll(nullptr, 0, std::min(kPollMs, left_ms(deadline)));
  }
}

Status MpsControl::wait_until_it_answers(int process, int timeout_ms) const {
  const uint64_t deadline = deadline_in(timeout_ms);
  while (true) {
    const Status answered = ask_pids("get_server_list", deadline).status();
    if (answered.code() != StatusCode::kUnavailable || left_ms(deadline) == 0) return answered;
    pollfd end{process, POLLIN, 0};
    if (poll(&end, 1, std::min(kPollMs, left_ms(deadline))) > 0) return answered;
  }
}

Status MpsControl::quit(int timeout_ms) const {
  return ask("quit", deadline_in(timeout_ms)).status();
}

}  // namespace vgpu::server
