// Users that processes of root's server run as, each as its own.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_USER_RANGE_H_
#define VGPU_BASE_USER_RANGE_H_

#include <sys/types.h>

#include <set>
#include <string>
#include <string_view>

#include "base/status.h"

namespace vgpu {

// Numbers that nobody has by convention: systemd lists them as unused.
inline constexpr uid_t kWorkerUserFirst = 1'987'000'000;
inline constexpr uid_t kWorkerUserLast = kWorkerUserFirst + 65'535;

// A worker has a number of its own for as long as it lives, so that the system keeps workers from
// each other and from everything else. Not thread-safe.
class UserRange {
 public:
  UserRange() = default;  // none: workers keep the server's user
  UserRange(uid_t first, uid_t last) : first_(first), last_(last), next_(first) {}

  // "FIRST-LAST", or "none". kInvalidArgument says what is wrong with it.
  static Result<UserRange> parse(std::string_view text);
  // What a server takes that was told nothing: the range above for root, where the system has such
  // users (a container may not); else none.
  static UserRange by_default();

  bool any() const { return last_ != 0; }
  // How many workers can live at once.
  uint64_t count() const { return any() ? uint64_t{last_} - first_ + 1 : 0; }
  bool same_range(const UserRange& other) const {
    return first_ == other.first_ && last_ == other.last_;
  }
  // Takes `count` numbers off the end, for others to give. None when that left too few.
  UserRange cut(uint32_t count);
  // "FIRST-LAST".
  std::string text() const { return std::to_string(first_) + "-" + std::to_string(last_); }
  // Numbers that living processes have, as after a restart, are not given.
  void keep_living();
  // Whether the system has such users: a container may have few.
  bool are_there() const;
  // A number that no living worker has; 0: none. Each is given once before one is given again.
  uid_t take();
  void give_back(uid_t user) { taken_.erase(user); }
  // A worker of an earlier server has it. One outside the range changes nothing.
  void keep(uid_t user) {
    if (user >= first_ && user <= last_) taken_.insert(user);
  }

 private:
  uid_t first_ = 0, last_ = 0, next_ = 0;
  std::set<uid_t> taken_;
};

// Whether user number `user` exists in a user namespace with this map (as /proc/self/uid_map).
bool is_mapped(const std::string& map, uid_t user);
// Whose process it is; 0 also when it is gone.
uid_t user_of_process(pid_t pid);

// This process, of root, is that user's from now on, without groups. No way back.
Status become_user(uid_t user);

}  // namespace vgpu

#endif  // VGPU_BASE_USER_RANGE_H_
