// Niceness is a thread's own, and is inherited.
// SPDX-License-Identifier: Apache-2.0
#include "server/os_weight.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>

namespace vgpu::server {
namespace {

constexpr double kStep = 1.25;  // of the kernel's weights, from one niceness to the next
constexpr int kClassSteps = 10;
constexpr int kNicest = 19, kLeastNice = -20;
constexpr int kPassesMax = 4;

int usual_nice() {
  static const int nice = getpriority(PRIO_PROCESS, 0);
  return nice;
}

struct Pass {
  bool changed = false, failed = false;
};

Pass set_all(const std::string& folder, int nice) {
  Pass pass;
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir(folder.c_str()), closedir);
  if (tasks == nullptr) return {false, true};
  for (const dirent* entry = readdir(tasks.get()); entry != nullptr; entry = readdir(tasks.get())) {
    const auto thread = static_cast<id_t>(std::strtoul(entry->d_name, nullptr, 10));
    if (thread == 0) continue;
    errno = 0;
    const int now = getpriority(PRIO_PROCESS, thread);
    if (errno != 0 || now == nice) continue;  // it has ended, or is right
    pass.changed = true;
    pass.failed |= setpriority(PRIO_PROCESS, thread, nice) != 0 && errno != ESRCH;
  }
  return pass;
}

}  // namespace

int nice_steps(const scheduler::Share& share) {
  const double of_weight =
      std::log(static_cast<double>(std::max(share.weight, 1U)) / scheduler::Share{}.weight) /
      std::log(kStep);
  const int of_class =
      static_cast<int>(share.priority) - static_cast<int>(scheduler::PriorityClass::kNormal);
  return kClassSteps * of_class - static_cast<int>(std::lround(of_weight));
}

bool may_set_nice() {
  const int usual = usual_nice();
  if (usual <= kLeastNice) return false;  // nothing would be less nice
  if (setpriority(PRIO_PROCESS, 0, usual - 1) != 0) return false;
  (void)setpriority(PRIO_PROCESS, 0, usual);
  return true;
}

bool set_nice_steps(pid_t pid, int steps) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  const int nice = std::clamp(usual_nice() + steps, kLeastNice, kNicest);
  // A thread may have been made meanwhile by one that had not been reached.
  for (int i = 0; i < kPassesMax; ++i) {
    const Pass pass = set_all(folder, nice);
    if (pass.failed) return false;
    if (!pass.changed) return true;
  }
  return false;
}

}  // namespace vgpu::server
