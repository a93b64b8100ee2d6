// How many descriptors a process may have.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_DESCRIPTOR_LIMIT_H_
#define VGPU_BASE_DESCRIPTOR_LIMIT_H_

#include <sys/resource.h>

namespace vgpu {

// As many as the system lets it have: the usual limit is low for the sake of programs that
// select().
inline void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace vgpu

#endif  // VGPU_BASE_DESCRIPTOR_LIMIT_H_
