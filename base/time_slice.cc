// The kernel takes a slice for threads of the usual policy since Linux 6.12 (sched_setattr(2)).
// SPDX-License-Identifier: Apache-2.0
#include "base/time_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace vgpu {
namespace {

constexpr uint64_t kShortNs = 100'000;  // the least that the kernel takes
constexpr uint64_t kUsual = 0;

// The kernel's struct sched_attr in its first version, which libc has none of everywhere.
struct Attributes {
  uint32_t size = sizeof(Attributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;
};
static_assert(sizeof(Attributes) == 48);

void set_slice(uint64_t ns) {
  Attributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.size = sizeof(attributes);
  attributes.runtime = ns;
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

void use_short_time_slices() { set_slice(kShortNs); }
void use_usual_time_slices() { set_slice(kUsual); }

}  // namespace vgpu
