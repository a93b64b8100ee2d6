// Numbers of users, and what the system says of them.
// SPDX-License-Identifier: Apache-2.0
#include "server/worker_users.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/env.h"

namespace vgpu::server {

Result<WorkerUsers> WorkerUsers::parse(std::string_view text) {
  if (text == "none") return WorkerUsers();
  const size_t dash = text.find('-');
  const auto first = parse_integer(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_integer(text.substr(dash + 1));
  // The largest number means "no change" to the system.
  if (!first || !last || *first < 1 || *last < *first || *last >= int64_t{UINT32_MAX}) {
    return Status(StatusCode::kInvalidArgument,
                  "must be none or two numbers of users like 60000-60999");
  }
  return WorkerUsers(static_cast<uid_t>(*first), static_cast<uid_t>(*last));
}

WorkerUsers WorkerUsers::by_default() {
  if (geteuid() != 0) return {};
  const WorkerUsers usual(kWorkerUserFirst, kWorkerUserLast);
  return usual.are_there() ? usual : WorkerUsers();
}

bool WorkerUsers::are_there() const {
  std::ifstream file("/proc/self/uid_map");
  std::stringstream map;
  map << file.rdbuf();
  return is_mapped(map.str(), first_) && is_mapped(map.str(), last_);
}

uid_t WorkerUsers::take() {
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

uid_t user_of_process(pid_t pid) {
  struct stat info {};
  return stat(("/proc/" + std::to_string(pid)).c_str(), &info) == 0 ? info.st_uid : 0;
}

}  // namespace vgpu::server
