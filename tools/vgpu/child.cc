// Starting, waiting for and ending child processes.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace vgpu::tools {
namespace {

sigset_t interrupting_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, number);
  return set;
}

std::string content_of(int file) {
  const off_t bytes = ::lseek(file, 0, SEEK_END);
  std::string text(bytes > 0 ? static_cast<size_t>(bytes) : 0, '\0');
  const ssize_t got = ::pread(file, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

UniqueFd memory_file(const char* name) {
  UniqueFd file(::memfd_create(name, MFD_CLOEXEC));
  if (!file.valid()) throw std::runtime_error(std::string("memfd_create: ") + std::strerror(errno));
  // Appending, so that two writers and our reading do not disturb each other's position.
  ::fcntl(file.get(), F_SETFL, O_APPEND);
  return file;
}

// Runs in the child between fork and exec: system calls only.
[[noreturn]] void become(char* const* arguments, char* const* variables, int output, int errors,
                         pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int input = ::open("/dev/null", O_RDONLY);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  ::execve(arguments[0], arguments, variables);
  ::_exit(127);
}

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> found;
  UniqueFd list(::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC));
  std::string text;
  char part[4096];
  for (ssize_t bytes = 1; list.valid() && bytes > 0;) {
    bytes = ::read(list.get(), part, sizeof(part));
    if (bytes > 0) text.append(part, static_cast<size_t>(bytes));
  }
  char* at = text.data();
  for (;;) {
    char* end = at;
    const long pid = std::strtol(at, &end, 10);
    if (end == at) return found;
    found.push_back(static_cast<pid_t>(pid));
    at = end;
  }
}

}  // namespace

Supervisor::Supervisor() {
  const sigset_t set = interrupting_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Supervisor::~Supervisor() {
  end_descendants();
  while (take_signal()) {
    // One that is still pending would end us as soon as it is let through.
  }
  const sigset_t set = interrupting_signals();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

bool Supervisor::take_signal() const {
  signalfd_siginfo info;
  return ::read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info));
}

int Supervisor::end_descendants() {
  const uint64_t limit = monotonic_ns() + uint64_t{kGraceMs} * 1'000'000;
  int killed = 0;
  // Whoever loses its parent becomes our child, so this ends when all generations are gone.
  for (std::vector<pid_t> left = children_of_this_process(); !left.empty();
       left = children_of_this_process()) {
    const bool patient = monotonic_ns() < limit;
    for (pid_t pid : left) {
      // 0: ours, and running.
      if (::waitpid(pid, nullptr, WNOHANG) != 0 || patient) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      ++killed;
    }
    if (patient) ::poll(nullptr, 0, 1);
  }
  return killed;
}

Child::Child(const std::vector<std::string>& command, const Environment& environment)
    : output_(memory_file("vgpu-stdout")), errors_(memory_file("vgpu-stderr")) {
  std::vector<std::string> lines = environment_lines(environment);
  std::vector<char*> arguments, variables;
  for (const std::string& text : command) arguments.push_back(const_cast<char*>(text.c_str()));
  for (std::string& text : lines) variables.push_back(text.data());
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  const pid_t parent = ::getpid();
  started_ns_ = monotonic_ns();
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (pid_ == 0) {
    become(arguments.data(), variables.data(), output_.get(), errors_.get(), parent);
  }
  running_ = true;
  process_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!process_.valid()) {
    throw std::runtime_error(std::string("pidfd_open: ") + std::strerror(errno));
  }
}

Child::~Child() {
  if (ended()) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string Child::output() const { return content_of(output_.get()); }
std::string Child::errors() const { return content_of(errors_.get()); }

bool Child::ended() {
  if (running_ && ::waitpid(pid_, &status_, WNOHANG) == pid_) {
    running_ = false;
    ended_ns_ = monotonic_ns();
  }
  return !running_;
}

void Child::signal(int number) const {
  if (running_) ::kill(pid_, number);
}

ChildOutcome Child::outcome() const {
  ChildOutcome outcome;
  outcome.exit_code = WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  outcome.timed_out = timed_out_;
  outcome.wall_ns = ended_ns_ - started_ns_;
  outcome.output = output();
  outcome.errors = errors();
  return outcome;
}

void wait_for(const std::vector<Child*>& children, int timeout_ms, const Supervisor& supervisor) {
  const uint64_t limit = monotonic_ns() + static_cast<uint64_t>(timeout_ms) * 1'000'000;
  for (;;) {
    std::vector<pollfd> polled = {{supervisor.signals(), POLLIN, 0}};
    for (Child* child : children) {
      if (!child->ended()) polled.push_back({child->process_.get(), POLLIN, 0});
    }
    if (polled.size() == 1) return;
    const uint64_t now = monotonic_ns();
    if (now >= limit) {
      for (Child* child : children) {
        if (child->ended()) continue;
        child->timed_out_ = true;
        ::kill(-child->pid_, SIGKILL);
      }
    }
    const int left = now >= limit ? 1000 : static_cast<int>((limit - now) / 1'000'000) + 1;
    ::poll(polled.data(), polled.size(), left);
    if (supervisor.take_signal()) throw Interrupted();
  }
}

ChildOutcome run_child(const std::vector<std::string>& command, const Environment& environment,
                       int timeout_ms, const Supervisor& supervisor) {
  Child child(command, environment);
  wait_for({&child}, timeout_ms, supervisor);
  return child.outcome();
}

void pause_ms(int timeout_ms, const Supervisor& supervisor) {
  pollfd polled = {supervisor.signals(), POLLIN, 0};
  if (::poll(&polled, 1, timeout_ms) > 0 && supervisor.take_signal()) throw Interrupted();
}

}  // namespace vgpu::tools
