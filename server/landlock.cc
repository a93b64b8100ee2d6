// The three system calls of Landlock, which libc does not wrap.
// SPDX-License-Identifier: Apache-2.0
#include "server/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/unique_fd.h"

namespace vgpu::server {
namespace {

// As linux/landlock.h of newer kernels has it; older ones take a shorter one.
struct Ruleset {
  uint64_t files;
  uint64_t network;
  uint64_t scoped;
};
constexpr int kAbiWithScopes = 6;
constexpr uint64_t kScopeAbstractSockets = 1, kScopeSignals = 2;
constexpr uint64_t kReading = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
// A right that no worker needs: some right must be handled for there to be a domain.
constexpr uint64_t kNeverNeeded = LANDLOCK_ACCESS_FS_MAKE_BLOCK;

Status failed(const char* what) { return Status::from_errno(errno, what); }

Status allow(int ruleset, const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd.valid()) return ok_status();  // what is not there need not be allowed
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return failed(path.c_str());
  landlock_path_beneath_attr rule{};
  rule.allowed_access = S_ISDIR(info.st_mode) ? kReading : LANDLOCK_ACCESS_FS_READ_FILE;
  rule.parent_fd = fd.get();
  if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0)
    return failed(path.c_str());
  return ok_status();
}

}  // namespace

Status enter_domain(const std::vector<std::string>& readable) {
  const auto abi = static_cast<int>(
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
  if (abi < 1) return Status(StatusCode::kNotSupported, "this kernel has no Landlock");
  Ruleset ruleset{};
  ruleset.files = readable.empty() ? kNeverNeeded : kReading | kNeverNeeded;
  if (abi >= kAbiWithScopes) ruleset.scoped = kScopeAbstractSockets | kScopeSignals;
  const size_t bytes = abi >= kAbiWithScopes ? sizeof(ruleset) : sizeof(ruleset.files);
  const UniqueFd fd(static_cast<int>(syscall(SYS_landlock_create_ruleset, &ruleset, bytes, 0)));
  if (!fd.valid()) return failed("landlock_create_ruleset");
  for (const std::string& path : readable) VGPU_RETURN_IF_ERROR(allow(fd.get(), path));
  if (syscall(SYS_landlock_restrict_self, fd.get(), 0) != 0)
    return failed("landlock_restrict_self");
  return ok_status();
}

}  // namespace vgpu::server
