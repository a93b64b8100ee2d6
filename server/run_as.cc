// fork and exec: posix_spawn knows no users.
// SPDX-License-Identifier: Apache-2.0
#include "server/run_as.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace vgpu::server {
namespace {

// Between fork and exec of a process with threads: system calls alone. Returns errno.
int become(const Program& program, int nothing) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  (void)setsid();
  const int input = program.input >= 0 ? program.input : nothing;
  const int output = program.output >= 0 ? program.output : nothing;
  if (dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0) return errno;
  if (close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) != 0) return errno;
  if (program.user == 0) return 0;
  if (setgroups(0, nullptr) != 0 || setresgid(program.user, program.user, program.user) != 0 ||
      setresuid(program.user, program.user, program.user) != 0) {
    return errno;
  }
  return 0;
}

std::vector<char*> words(std::vector<std::string>* from) {
  std::vector<char*> all;
  for (std::string& each : *from) all.push_back(each.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

Result<pid_t> run_as(const Program& program) {
  std::vector<std::string> arguments = {program.path}, settings = program.settings;
  arguments.insert(arguments.end(), program.arguments.begin(), program.arguments.end());
  const std::vector<char*> argv = words(&arguments), envp = words(&settings);
  // Says why, when there is no program to say it; closed by exec.
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status::from_errno(errno, "pipe2");
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const UniqueFd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing.valid()) return Status::from_errno(errno, "/dev/null");
  const pid_t pid = fork();
  if (pid < 0) return Status::from_errno(errno, "fork");
  if (pid == 0) {
    int error = become(program, nothing.get());
    if (error == 0) {
      execve(program.path.c_str(), argv.data(), envp.data());
      error = errno;
    }
    (void)!write(writing.get(), &error, sizeof(error));
    _exit(127);
  }
  writing.reset();
  int error = 0;
  ssize_t bytes = 0;
  while ((bytes = read(reading.get(), &error, sizeof(error))) < 0 && errno == EINTR) continue;
  if (bytes == 0) return pid;
  (void)waitpid(pid, nullptr, 0);
  return Status(StatusCode::kUnavailable,
                program.path + ": " + Status::from_errno(error, "").text());
}

}  // namespace vgpu::server
