// What a worker cannot do once it is in its sandbox. Each case runs in a child.
// SPDX-License-Identifier: Apache-2.0
#include "server/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include "base/unique_fd.h"
#include "protocol/transport/connect.h"

namespace vgpu::server {
namespace {

// Runs `body` in a sandboxed child; what it returns is the exit code.
int in_sandbox(const Sandbox& sandbox, const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (!enter_sandbox(sandbox).ok()) _exit(99);
    _exit(body());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int in_sandbox(DriverKind driver, const std::function<int()>& body) {
  return in_sandbox(Sandbox{driver, 0, {}}, body);
}

class AnySandbox : public testing::TestWithParam<DriverKind> {};

TEST_P(AnySandbox, NoOtherProgram) {
  EXPECT_EQ(in_sandbox(GetParam(),
                       [] {
                         char name[] = "/bin/true";
                         char* const argv[] = {name, nullptr};
                         execv(name, argv);
                         return errno == EPERM ? 7 : 1;
                       }),
            7);
}

TEST_P(AnySandbox, NoNetwork) {
  EXPECT_EQ(in_sandbox(GetParam(),
                       [] {
                         if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || errno != EPERM) return 1;
                         if (socket(AF_NETLINK, SOCK_RAW, 0) >= 0 || errno != EPERM) return 2;
                         return socket(AF_UNIX, SOCK_SEQPACKET, 0) >= 0 ? 7 : 3;
                       }),
            7);
}

TEST_P(AnySandbox, NoPrivilegesNoCoreNoTrace) {
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

TEST_P(AnySandbox, SignalsToItselfOnly) {
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

INSTANTIATE_TEST_SUITE_P(Drivers, AnySandbox,
                         testing::Values(DriverKind::kSoft, DriverKind::kNvidia));

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

// A socket at a path to which anybody may connect.
class OpenDoor {
 public:
  OpenDoor() : path_("/tmp/vgpu-sandbox-test-" + std::to_string(getpid())) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    fd_.reset(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd_.get(), 1), 0);
    EXPECT_EQ(chmod(path_.c_str(), 0666), 0);
  }
  ~OpenDoor() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd fd_;
};

TEST(SandboxSoft, ConnectsToNothing) {
  const OpenDoor door;
  ASSERT_TRUE(protocol::connect_unix(door.path()).ok()) << "whoever is free can";
  EXPECT_EQ(in_sandbox(DriverKind::kSoft,
                       [&] {
                         const auto connected = protocol::connect_unix(door.path());
                         return connected.status().os_error() == EPERM ? 7 : 1;
                       }),
            7);
}

bool kernel_has_landlock() { return syscall(SYS_landlock_create_ruleset, nullptr, 0, 1) >= 1; }

// A child that has a secret in its memory, and ends with this.
class Neighbour {
 public:
  Neighbour() : pid_(fork()) {
    if (pid_ != 0) return;
    for (;;) pause();
  }
  ~Neighbour() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::string memory() const { return "/proc/" + std::to_string(pid_) + "/mem"; }
  std::string environment() const { return "/proc/" + std::to_string(pid_) + "/environ"; }

 private:
  pid_t pid_;
};

TEST_P(AnySandbox, SeesNoMemoryOfOthers) {
  if (!kernel_has_landlock()) GTEST_SKIP() << "this kernel has no Landlock";
  const Neighbour neighbour;
  ASSERT_GE(open(neighbour.memory().c_str(), O_RDONLY | O_CLOEXEC), 0) << "whoever is free can";
  EXPECT_EQ(in_sandbox(GetParam(),
                       [&] {
                         if (open(neighbour.memory().c_str(), O_RDONLY) >= 0) return 1;
                         return open("/proc/self/maps", O_RDONLY) >= 0 ? 7 : 3;
                       }),
            7);
}

// A domain alone does not keep these secret, so this is the list of files at work.
TEST(SandboxSoft, SeesNoEnvironmentOfOthers) {
  if (!kernel_has_landlock()) GTEST_SKIP() << "this kernel has no Landlock";
  const Neighbour neighbour;
  ASSERT_GE(open(neighbour.environment().c_str(), O_RDONLY | O_CLOEXEC), 0);
  EXPECT_EQ(
      in_sandbox(DriverKind::kSoft,
                 [&] { return open(neighbour.environment().c_str(), O_RDONLY) >= 0 ? 8 : 7; }),
      7);
}

TEST(SandboxSoft, ReadsWhatItIsToldOnly) {
  if (!kernel_has_landlock()) GTEST_SKIP() << "this kernel has no Landlock";
  char folder[] = "/tmp/vgpu-sandbox-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string file = std::string(folder) + "/file";
  ASSERT_GE(open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644), 0);
  const auto readable = [&] { return open(file.c_str(), O_RDONLY) >= 0 ? 7 : 8; };
  EXPECT_EQ(in_sandbox(Sandbox{DriverKind::kSoft, 0, {folder}}, readable), 7);
  EXPECT_EQ(in_sandbox(Sandbox{DriverKind::kSoft, 0, {}}, readable), 8);
  EXPECT_EQ(in_sandbox(Sandbox{DriverKind::kSoft, 0, {"/tmp/vgpu-sandbox-none"}}, readable), 8);
  unlink(file.c_str());
  rmdir(folder);
}

TEST_P(AnySandbox, AsAUserOfItsOwn) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  char folder[] = "/tmp/vgpu-sandbox-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);  // mode 0700
  EXPECT_EQ(in_sandbox(Sandbox{GetParam(), 60321, {folder}},
                       [&] {
                         uid_t real = 0, effective = 0, saved = 0;
                         if (getresuid(&real, &effective, &saved) == 0) {
                           if (real != 60321 || effective != 60321 || saved != 60321) return 1;
                         } else if (getuid() != 60321 || geteuid() != 60321) {
                           return 2;
                         }
                         if (getgid() != 60321) return 3;
                         if (open(folder, O_RDONLY | O_DIRECTORY) >= 0) return 4;
                         if (open("/proc/self/fd", O_RDONLY | O_DIRECTORY) < 0) return 5;
                         rlimit threads{};
                         getrlimit(RLIMIT_NPROC, &threads);
                         return threads.rlim_max <= kWorkerThreadsMax ? 7 : 6;
                       }),
            7);
  rmdir(folder);
}

}  // namespace
}  // namespace vgpu::server
