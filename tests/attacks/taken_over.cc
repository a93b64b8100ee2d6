// A library that takes a worker over: preloaded, it waits until the worker is in its sandbox, and
// then tries from inside what somebody would try who runs code of their own there.
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "tests/attacks/report.h"

namespace {

using vgpu::testing::Report;

constexpr int kControl = 3;  // the worker's socket to vgpud
constexpr int kSeccompFiltered = 2;

Report* report = nullptr;
std::string server_socket;

void note(const char* what, bool reached) {
  ++report->tried;
  if (!reached) return;
  const auto bytes = static_cast<uint32_t>(std::strlen(what));
  const uint32_t at = report->bytes.fetch_add(bytes + 1);
  if (at + bytes + 1 > vgpu::testing::kReportTextBytes) return;
  std::memcpy(report->reached + at, what, bytes);
  report->reached[at + bytes] = '\n';
}

bool opens(const std::string& path, int flags = O_RDONLY) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

std::string proc(pid_t pid, const char* what) {
  return "/proc/" + std::to_string(pid) + "/" + what;
}

bool connects(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const int result = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  close(fd);
  return result == 0;
}

bool listens() {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path + 1, "vgpu-attack", sizeof(address.sun_path) - 1);
  const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  const bool listening = bound && listen(fd, 1) == 0;
  close(fd);
  return listening;
}

void try_files(pid_t server) {
  note("reads /etc/passwd", opens("/etc/passwd"));
  note("reads /etc/shadow", opens("/etc/shadow"));
  note("lists /", opens("/", O_RDONLY | O_DIRECTORY));
  note("lists /tmp", opens("/tmp", O_RDONLY | O_DIRECTORY));
  note("writes to /tmp", opens("/tmp/vgpu-attack", O_WRONLY | O_CREAT));
  note("removes the server's socket", unlink(server_socket.c_str()) == 0);
  note("lists the workers' doors", opens(server_socket + ".workers", O_RDONLY | O_DIRECTORY));
  note("reads the server's memory", opens(proc(server, "mem")));
  note("reads the server's environment", opens(proc(server, "environ")));
  note("reads the server's mappings", opens(proc(server, "maps")));
  note("lists the server's descriptors", opens(proc(server, "fd"), O_RDONLY | O_DIRECTORY));
}

void try_processes(pid_t server) {
  char byte = 0;
  iovec mine{&byte, 1}, theirs{reinterpret_cast<void*>(0x400000), 1};
  note("reads memory through process_vm_readv",
       syscall(SYS_process_vm_readv, server, &mine, 1, &theirs, 1, 0) > 0);
  note("traces the server", ptrace(PTRACE_ATTACH, server, nullptr, nullptr) == 0);
  note("signals the server", kill(server, 0) == 0);
  note("signals a thread of the server", syscall(SYS_tgkill, server, server, 0) == 0);
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, server, 0));
  note("signals the server by descriptor",
       pidfd >= 0 && syscall(SYS_pidfd_send_signal, pidfd, 0, nullptr, 0) == 0);
  note("takes a descriptor of the server's",
       pidfd >= 0 && syscall(SYS_pidfd_getfd, pidfd, 0, 0) >= 0);
  note("lets a descriptor signal the server", fcntl(kControl, F_SETOWN, server) == 0);
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  note("moves the server to one CPU", sched_setaffinity(server, sizeof(first), &first) == 0);
  note("changes the server's priority",
       setpriority(PRIO_PROCESS, static_cast<id_t>(server), 5) == 0);
  note("raises its own priority", setpriority(PRIO_PROCESS, 0, -20) == 0 && geteuid() != 0);
  rlimit limit{};
  note("reads the server's limits", prlimit(server, RLIMIT_NOFILE, nullptr, &limit) == 0);
  rlimit more{1 << 20, 1 << 20};
  note("raises its own limits", setrlimit(RLIMIT_NOFILE, &more) == 0);
}

void try_leaving() {
  const long child = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) _exit(0);
  note("makes a process", child > 0);
  const long forked = syscall(SYS_fork);
  if (forked == 0) _exit(0);
  note("forks", forked > 0);
  char name[] = "/bin/true";
  char* const argv[] = {name, nullptr};
  note("starts a program", execv(name, argv) == 0);
  note("becomes root", syscall(SYS_setuid, 0) == 0);
  note("makes namespaces", unshare(CLONE_NEWUSER) == 0);
  note("mounts", mount("none", "/tmp", "tmpfs", 0, nullptr) == 0);
  note("reaches the network", socket(AF_INET, SOCK_STREAM, 0) >= 0);
  note("reaches the kernel's sockets", socket(AF_NETLINK, SOCK_RAW, 0) >= 0);
  note("connects to the server", connects(server_socket));
  note("listens", listens());
  note("loads programs into the kernel", syscall(SYS_bpf, 0, nullptr, 0) >= 0);
  note("measures others", syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0) >= 0);
  note("has rings with the kernel", syscall(SYS_io_uring_setup, 8, nullptr) >= 0);
  note("handles page faults", syscall(SYS_userfaultfd, 0) >= 0);
  note("reads the kernel's keys", syscall(SYS_keyctl, 0, 0, 0, 0, 0) >= 0);
}

// Rubbish for vgpud, with and without descriptors, of every size that goes through.
void shout(unsigned seed) {
  std::mt19937 random(seed);
  std::string text(4096, '\0');
  for (int i = 0; i < 100; ++i) {
    for (char& c : text) c = static_cast<char>(random());
    (void)send(kControl, text.data(), random() % text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

void take_over() {
  const pid_t server = getppid();
  ++report->workers;
  try_files(server);
  try_processes(server);
  try_leaving();
  shout(static_cast<unsigned>(getpid()));
}

// Before the worker closes what it was not given: a mapping outlives its descriptor.
__attribute__((constructor)) void begin() {
  const char* path = std::getenv(vgpu::testing::kReportVariable);
  const char* socket = std::getenv(vgpu::testing::kSocketVariable);
  if (path == nullptr || socket == nullptr ||
      std::strstr(program_invocation_short_name, "vgpu-worker") == nullptr) {
    return;
  }
  server_socket = socket;
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  void* memory = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory != MAP_FAILED) report = static_cast<Report*>(memory);
}

}  // namespace

// The worker waits for its guest with this, in the sandbox.
extern "C" __attribute__((visibility("default"))) ssize_t recvmsg(int fd, msghdr* message,
                                                                  int flags) {
  using Real = ssize_t (*)(int, msghdr*, int);
  static const auto real = reinterpret_cast<Real>(dlsym(RTLD_NEXT, "recvmsg"));
  static bool done = false;
  const ssize_t bytes = real(fd, message, flags);
  if (report != nullptr && !done && prctl(PR_GET_SECCOMP) == kSeccompFiltered) {
    done = true;
    take_over();
  }
  return bytes;
}
