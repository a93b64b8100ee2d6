// Numbers of users, and what the system says of them.
// SPDX-License-Identifier: Apache-2.0

#include "base/user_range.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/env.h"

namespace vgpu {

Result<UserRange> UserRange::parse(std::string_view text) {
  if (text == "none") return UserRange();
  const size_t dash = text.find('-');
  const auto first = parse_integer(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_integer(text.substr(dash + 1));
  // The largest number means "no change" to the system.
  if (!first || !last || *first < 1 || *last < *first || *last >= int64_t{UINT32_MAX}) {
    return Status(StatusCode::kInvalidArgument,
                  "must be none or two numbers of users like 60000-60999");
  }
  return UserRange(static_cast<uid_t>(*first), static_cast<uid_t>(*last));
}

UserRange UserRange::by_default() {
  if (geteuid() != 0) return {};
  const UserRange usual(kWorkerUserFirst, kWorkerUserLast);
  return usual.are_there() ? usual : UserRange();
}

bool UserRange::are_there() const {
  std::ifstream file("/proc/self/uid_map");
  std::stringstream map;
  map << file.rdbuf();
  return is_mapped(map.str(), first_) && is_mapped(map.str(), last_);
}

UserRange UserRange::cut(uint32_t count) {
  if (this->count() / 4 < count) return {};
  const UserRange end(last_ - count + 1, last_);
  last_ -= count;
  return end;
}

void UserRange::keep_living() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    struct stat info {};
    if (::stat(entry.path().c_str(), &info) == 0) keep(info.st_uid);
  }
}

uid_t UserRange::take() {
  if (!any()) return 0;
  for (uint64_t tries = 0; tries <= uint64_t{last_} - first_; ++tries) {
    const uid_t user = next_;
    next_ = next_ == last_ ? first_ : next_ + 1;
    if (taken_.insert(user).second) return user;
  }
  return 0;
}

bool is_mapped(const std::string& map, uid_t user) {
  std::istringstream lines(map);
  uint64_t inside = 0, outside = 0, count = 0;
  while (lines >> inside >> outside >> count) {
    if (user >= inside && user - inside < count) return true;
  }
  return false;
}

Status become_user(uid_t user) {
  if (::setgroups(0, nullptr) != 0) return Status::from_errno(errno, "setgroups");
  if (::setresgid(user, user, user) != 0) return Status::from_errno(errno, "setresgid");
  if (::setresuid(user, user, user) != 0) return Status::from_errno(errno, "setresuid");
  return ok_status();
}

uid_t user_of_process(pid_t pid) {
  struct stat info {};
  return stat(("/proc/" + std::to_string(pid)).c_str(), &info) == 0 ? info.st_uid : 0;
}

}  // namespace vgpu
