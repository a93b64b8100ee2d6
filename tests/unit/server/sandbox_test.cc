// What a worker cannot do once it is in its sandbox. Each case runs in a child.
// SPDX-License-Identifier: Apache-2.0
#include "server/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

namespace vgpu::server {
namespace {

// Runs `body` in a sandboxed child; what it returns is the exit code.
int in_sandbox(DriverKind kind, const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (!enter_sandbox(kind).ok()) _exit(99);
    _exit(body());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class Sandbox : public testing::TestWithParam<DriverKind> {};

TEST_P(Sandbox, NoOtherProgram) {
  EXPECT_EQ(in_sandbox(GetParam(),
                       [] {
                         char name[] = "/bin/true";
                         char* const argv[] = {name, nullptr};
                         execv(name, argv);
                         return errno == EPERM ? 7 : 1;
                       }),
            7);
}

TEST_P(Sandbox, NoNetwork) {
  EXPECT_EQ(in_sandbox(GetParam(),
                       [] {
                         if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || errno != EPERM) return 1;
                         if (socket(AF_NETLINK, SOCK_RAW, 0) >= 0 || errno != EPERM) return 2;
                         return socket(AF_UNIX, SOCK_SEQPACKET, 0) >= 0 ? 7 : 3;
                       }),
            7);
}

TEST_P(Sandbox, NoPrivilegesNoCoreNoTrace) {
  EXPECT_EQ(in_sandbox(GetParam(),
                       [] {
                         rlimit core{};
                         getrlimit(RLIMIT_CORE, &core);
                         if (core.rlim_max != 0) return 1;
                         if (setuid(getuid()) == 0 || errno != EPERM) return 2;
                         return unlink("/tmp/vgpu-sandbox-test-none") != 0 && errno == EPERM ? 7
                                                                                             : 3;
                       }),
            7);
}

TEST_P(Sandbox, SignalsToItselfOnly) {
  EXPECT_EQ(in_sandbox(GetParam(),
                       [] {
                         const pid_t parent = getppid();
                         if (syscall(SYS_tgkill, parent, parent, 0) == 0 || errno != EPERM)
                           return 1;
                         if (kill(parent, 0) == 0 || errno != EPERM) return 2;
                         if (syscall(SYS_tkill, parent, 0) == 0 || errno != EPERM) return 3;
                         const int own = socket(AF_UNIX, SOCK_STREAM, 0);
                         if (own < 0) return 5;
                         if (fcntl(own, F_SETOWN, parent) == 0 || errno != EPERM) return 6;
                         if (ioctl(own, FIOSETOWN, &parent) == 0 || errno != EPERM) return 8;
                         return syscall(SYS_tgkill, getpid(), gettid(), 0) == 0 ? 7 : 4;
                       }),
            7);
}

INSTANTIATE_TEST_SUITE_P(Drivers, Sandbox, testing::Values(DriverKind::kSoft, DriverKind::kNvidia));

TEST(SandboxSoft, FilesForReadingOnly) {
  EXPECT_EQ(in_sandbox(DriverKind::kSoft,
                       [] {
                         if (open("/proc/self/maps", O_RDONLY) < 0) return 1;
                         if (open("/tmp/vgpu-sandbox-test", O_CREAT | O_WRONLY, 0600) >= 0)
                           return 2;
                         if (errno != EPERM) return 3;
                         if (open("/dev/null", O_RDWR) >= 0 || errno != EPERM) return 4;
                         return kill(getppid(), 0) != 0 && errno == EPERM ? 7 : 5;
                       }),
            7);
}

}  // namespace
}  // namespace vgpu::server
