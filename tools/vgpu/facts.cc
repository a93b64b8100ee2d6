// Looking at the machine.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "base/bytes.h"
#include "base/unique_fd.h"
#include "tools/vgpu/doctor.h"

namespace vgpu::tools {
namespace {

// The first range that guests claim (docs/memory.md).
constexpr uint64_t kDeviceRangeBase = 0x2000'0000'0000;
constexpr uint64_t kDeviceRangeBytes = uint64_t{8} << 40;
constexpr size_t kLoaderTextMax = 2048;

bool memfd_seals_work() {
  UniqueFd memory(::memfd_create("vgpu-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return memory.valid() && ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0;
}

bool pidfd_works() {
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  return process.valid();
}

bool seccomp_works() {
  const uint32_t action = SECCOMP_RET_KILL_PROCESS;
  return ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

bool can_claim_addresses() {
  void* base = reinterpret_cast<void*>(kDeviceRangeBase);
  void* range = ::mmap(base, kDeviceRangeBytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (range == MAP_FAILED) return false;
  ::munmap(range, kDeviceRangeBytes);
  return range == base;
}

uint64_t memory_line(const std::string& line) {  // "MemTotal:  123 kB"
  return std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10) * kKiB;
}

void read_memory(MachineFacts* facts) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemTotal:")) facts->memory_total = memory_line(line);
    if (line.starts_with("MemAvailable:")) facts->memory_available = memory_line(line);
  }
}

}  // namespace

MachineFacts gather_machine_facts() {
  MachineFacts facts;
#if defined(__x86_64__)
  facts.avx2 = __builtin_cpu_supports("avx2") != 0;
  facts.fma = __builtin_cpu_supports("fma") != 0;
#else
  facts.avx2 = facts.fma = true;  // a question for x86 only
#endif
  facts.cores = std::thread::hardware_concurrency();
  read_memory(&facts);
  struct rlimit limit {};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  facts.memlock_bytes = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
  facts.memfd_seals = memfd_seals_work();
  facts.pidfd = pidfd_works();
  facts.seccomp = seccomp_works();
  struct utsname system {};
  ::uname(&system);
  facts.kernel = std::string(system.sysname) + " " + system.release;
  facts.address_range = can_claim_addresses();
  return facts;
}

std::string load_error(const std::string& library) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::strerror(errno);
  UniqueFd reader(ends[0]), writer(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return std::strerror(errno);
  if (child == 0) {
    // In a process of its own: what a library does when it is loaded stays there.
    if (::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
      const char* text = ::dlerror();
      (void)!::write(writer.get(), text, std::strlen(text));
    }
    ::_exit(0);
  }
  writer.reset();
  char text[kLoaderTextMax];
  const ssize_t bytes = ::read(reader.get(), text, sizeof(text));
  int status = 0;
  ::waitpid(child, &status, 0);
  if (bytes > 0) return std::string(text, static_cast<size_t>(bytes));
  return WIFSIGNALED(status) ? std::string("signal ") + ::strsignal(WTERMSIG(status)) : "";
}

}  // namespace vgpu::tools
