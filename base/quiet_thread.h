// Threads of ours in other people's programs: they take no signal that is sent to the process.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_QUIET_THREAD_H_
#define VGPU_BASE_QUIET_THREAD_H_

#include <signal.h>

#include <initializer_list>

namespace vgpu {

// Blocks all signals of the calling thread, and so of those that it starts, for as long as this
// lasts.
class QuietScope {
 public:
  // But for these, which a thread may bring about itself.
  explicit QuietScope(std::initializer_list<int> but = {});
  ~QuietScope();
  QuietScope(const QuietScope&) = delete;
  QuietScope& operator=(const QuietScope&) = delete;

 private:
  sigset_t before_;
};

// Starts a detached thread under the scope above, with a stack of the usual size. The error number;
// 0 when it runs.
int start_quiet_thread(void* (*run)(void*), void* argument, std::initializer_list<int> but = {});

}  // namespace vgpu

#endif  // VGPU_BASE_QUIET_THREAD_H_
