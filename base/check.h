// VGPU_CHECK: a bug of ours ends the process, with a line that says where.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_CHECK_H_
#define VGPU_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace vgpu {

// Prints the broken condition and aborts. Never in the shim or in softgpu, which live in someone
// else's process: there a broken session makes calls return an error.
[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "vgpu: check failed: %s at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace vgpu

// For what can only be false through a bug of ours; never for input, peers or the system.
#define VGPU_CHECK(condition)                               \
  do {                                                      \
    if (!(condition)) [[unlikely]] {                        \
      ::vgpu::check_failed(#condition, __FILE__, __LINE__); \
    }                                                       \
  } while (false)

#endif  // VGPU_BASE_CHECK_H_
