// System call filters by libseccomp, and resource limits.
// SPDX-License-Identifier: Apache-2.0
#include "server/sandbox.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "base/user_range.h"
#include "server/landlock.h"
#include "server/log.h"

namespace vgpu::server {
namespace {

// Measured with the test programs on the software GPU, plus what libc may choose instead.
constexpr const char* kAllowed[] = {
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "lseek",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "fcntl",
    "fstat",
    "newfstatat",
    "stat",
    "lstat",
    "statx",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "getdents64",
    "getcwd",
    "ioctl",
    "mmap",
    "munmap",
    "mprotect",
    "mremap",
    "madvise",
    "brk",
    "msync",
    "mincore",
    "mlock",
    "munlock",
    "membarrier",
    "memfd_create",
    "ftruncate",
    "fallocate",
    "flock",
    "futex",
    "futex_waitv",
    "set_robust_list",
    "get_robust_list",
    "rseq",
    "set_tid_address",
    "exit",
    "exit_group",
    "sched_yield",
    "sched_getaffinity",
    "sched_getparam",
    "sched_getscheduler",
    "sched_getattr",
    "getcpu",
    "getpriority",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigaltstack",
    "rt_sigtimedwait",
    "gettid",
    "getpid",
    "getppid",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "clock_gettime",
    "clock_getres",
    "clock_nanosleep",
    "nanosleep",
    "gettimeofday",
    "time",
    "times",
    "getrusage",
    "getrandom",
    "uname",
    "sysinfo",
    "getrlimit",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "eventfd2",
    "timerfd_create",
    "timerfd_settime",
    "pipe2",
    "pidfd_open",
    "accept4",
    "sendmsg",
    "recvmsg",
    "sendto",
    "recvfrom",
    "shutdown",
    "getsockopt",
    "setsockopt",
    "getsockname",
    "getpeername",
    "restart_syscall",
    "prctl",
};

constexpr const char* kForbidden[] = {
    "fork",
    "vfork",
    "execve",
    "execveat",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "setuid",
    "setgid",
    "setreuid",
    "setregid",
    "setresuid",
    "setresgid",
    "setgroups",
    "capset",
    "bpf",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "userfaultfd",
    "perf_event_open",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "reboot",
    "swapon",
    "swapoff",
    "add_key",
    "request_key",
    "keyctl",
    "unshare",
    "setns",
    "open_by_handle_at",
    "pidfd_getfd",
    "acct",
    "quotactl",
    "settimeofday",
    "clock_settime",
    "adjtimex",
    "listen",
    "accept",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "chmod",
    "fchmod",
    "fchmodat",
    "chown",
    "fchown",
    "fchownat",
    "lchown",
    "kill",
    "tkill",
    "rt_sigqueueinfo",
    "rt_tgsigqueueinfo",
    "pidfd_send_signal",
};

Status failed(int error, const char* what) { return Status::from_errno(-error, what); }

int number_of(const char* name) { return seccomp_syscall_resolve_name(name); }

// Threads yes, processes no: a child would outlive the session that it came from. What clone3 is
// asked for lies in memory, where a filter cannot look; libc then takes clone.
int threads_only(scmp_filter_ctx filter, bool allow) {
  const int error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
  if (error != 0) return error;
  return allow ? seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                                  SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD))
               : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                  SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
}

// Where its own threads run, and how urgently; nobody else's.
int own_scheduling(scmp_filter_ctx filter) {
  for (const int number : {SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_setparam),
                           SCMP_SYS(sched_setscheduler), SCMP_SYS(sched_setattr)}) {
    const int error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 1, SCMP_A0(SCMP_CMP_EQ, 0));
    if (error != 0) return error;
  }
  return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(setpriority), 2,
                          SCMP_A0(SCMP_CMP_EQ, PRIO_PROCESS), SCMP_A1(SCMP_CMP_EQ, 0));
}

int allow_list(scmp_filter_ctx filter) {
  for (const char* name : kAllowed) {
    const int number = number_of(name);
    if (number == __NR_SCMP_ERROR) continue;  // not on this architecture
    if (int error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0); error != 0) return error;
  }
  if (const int error = threads_only(filter, true); error != 0) return error;
  if (const int error = own_scheduling(filter); error != 0) return error;
  // Files for reading only.
  constexpr scmp_datum_t kWriting = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
  int error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
                               SCMP_A2(SCMP_CMP_MASKED_EQ, kWriting, 0));
  if (error != 0) return error;
  error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(open), 1,
                           SCMP_A1(SCMP_CMP_MASKED_EQ, kWriting, 0));
  if (error != 0 && error != -EDOM) return error;
  // Signals to, and limits of, this process only.
  error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                           SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(getpid())));
  if (error != 0) return error;
  error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, SCMP_A0(SCMP_CMP_EQ, 0));
  if (error != 0) return error;
  return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                          SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
}

// A descriptor with an owner sends it a signal of one's choice when data comes.
int deny_owners(scmp_filter_ctx filter) {
  const struct {
    int number;
    scmp_datum_t command;
  } calls[] = {{SCMP_SYS(fcntl), F_SETOWN},
               {SCMP_SYS(fcntl), F_SETOWN_EX},
               {SCMP_SYS(ioctl), FIOSETOWN},
               {SCMP_SYS(ioctl), SIOCSPGRP}};
  for (const auto& [number, command] : calls) {
    // The kernel looks at 32 bits of it.
    const int error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 1,
                                       SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, command));
    if (error != 0) return error;
  }
  return 0;
}

int deny_list(scmp_filter_ctx filter) {
  for (const char* name : kForbidden) {
    const int number = number_of(name);
    if (number == __NR_SCMP_ERROR) continue;
    if (int error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0); error != 0) {
      return error;
    }
  }
  int error = deny_owners(filter);
  if (error == 0) error = threads_only(filter, false);
  if (error != 0) return error;
  error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(tgkill), 1,
                           SCMP_A0(SCMP_CMP_NE, static_cast<scmp_datum_t>(getpid())));
  if (error != 0) return error;
  return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
                          SCMP_A0(SCMP_CMP_NE, AF_UNIX));
}

Status load_filter(bool allow) {
  scmp_filter_ctx filter = seccomp_init(allow ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW);
  if (filter == nullptr) return Status(StatusCode::kResourceExhausted, "seccomp_init");
  int error = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
  // The kernel's audit log says which call was refused; old kernels have no such switch.
  (void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_LOG, 1);
  if (error == 0) error = allow ? allow_list(filter) : deny_list(filter);
  if (error == 0) error = seccomp_load(filter);
  seccomp_release(filter);
  return error == 0 ? ok_status() : failed(error, "seccomp");
}

Status set_limit(__rlimit_resource_t resource, rlim_t value, const char* name) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return Status::from_errno(errno, name);
  if (limit.rlim_max < value) value = limit.rlim_max;
  limit.rlim_cur = limit.rlim_max = value;
  return setrlimit(resource, &limit) == 0 ? ok_status() : Status::from_errno(errno, name);
}

// What threads and libraries look up while they run.
std::vector<std::string> readable_paths(const Sandbox& sandbox) {
  std::vector<std::string> all = {
      "/usr",       "/lib",          "/lib64",        "/etc/ld.so.cache", "/etc/localtime",
      "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm",     "/sys/devices/system"};
  all.insert(all.end(), sandbox.readable.begin(), sandbox.readable.end());
  return all;
}

// The kernel may be older than Landlock; the rest of the sandbox holds there too.
Status fence_off(const Sandbox& sandbox) {
  const bool soft = sandbox.driver == DriverKind::kSoft;
  const Status entered = enter_domain(soft ? readable_paths(sandbox) : std::vector<std::string>());
  if (entered.code() != StatusCode::kNotSupported) return entered;
  log(Level::kDebug, "%s: only the user's rights decide what a worker may read",
      entered.text().c_str());
  return ok_status();
}

Status become(const Sandbox& sandbox) {
  // The limit counts by users.
  const rlim_t threads = kWorkerThreadsMax * (sandbox.shares_user ? kWorkersOfUserMax : 1);
  VGPU_RETURN_IF_ERROR(set_limit(RLIMIT_NPROC, threads, "RLIMIT_NPROC"));
  VGPU_RETURN_IF_ERROR(become_user(sandbox.user));
  // A process that changes its user loses its own /proc/self. Whoever else has this user is of the
  // same tenant, and its Landlock domain keeps it out.
  if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) return Status::from_errno(errno, "PR_SET_DUMPABLE");
  return ok_status();
}

}  // namespace

void close_descriptors(int first) { (void)close_range(static_cast<unsigned>(first), ~0U, 0); }

Status enter_sandbox(const Sandbox& sandbox) {
  VGPU_RETURN_IF_ERROR(set_limit(RLIMIT_CORE, 0, "RLIMIT_CORE"));
  VGPU_RETURN_IF_ERROR(set_limit(RLIMIT_NOFILE, kWorkerDescriptorsMax, "RLIMIT_NOFILE"));
  if (sandbox.user != 0) VGPU_RETURN_IF_ERROR(become(sandbox));
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return Status::from_errno(errno, "PR_SET_NO_NEW_PRIVS");
  }
  VGPU_RETURN_IF_ERROR(fence_off(sandbox));
  // A list of what is allowed cannot name exceptions, so the other one stands in front of it.
  VGPU_RETURN_IF_ERROR(load_filter(false));
  return sandbox.driver == DriverKind::kSoft ? load_filter(true) : ok_status();
}

}  // namespace vgpu::server
