// Child processes that cannot outlive us, with their output in memory.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_CHILD_H_
#define VGPU_TOOLS_VGPU_CHILD_H_

#include <sys/types.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "tools/vgpu/environment.h"

namespace vgpu::tools {

// Thrown when the user presses Ctrl-C (or the process gets SIGTERM, SIGHUP): destructors stop what
// was started.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

// While it lives, SIGINT, SIGTERM and SIGHUP are read from a descriptor instead of ending us, and
// orphaned grandchildren become our children, so that none is left behind. One at a time.
class Supervisor {
 public:
  Supervisor();
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  int signals() const { return signals_.get(); }
  // Takes one signal that has come; false when there is none. A second Ctrl-C is a second signal.
  bool take_signal() const;
  // Waits for every process that descends from us; kills what is left after kGraceMs. Returns how
  // many had to be killed.
  static int end_descendants();
  static constexpr int kGraceMs = 2000;

 private:
  UniqueFd signals_;
};

struct ChildOutcome {
  int exit_code = 0;  // 128 + signal when a signal ended it
  bool timed_out = false;
  uint64_t wall_ns = 0;
  std::string output, errors;
};

// One child in a process group of its own; killed with its group when this object ends before it.
class Child {
 public:
  // Starts command[0]. Throws std::runtime_error when that fails.
  Child(const std::vector<std::string>& command, const Environment& environment);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // What was written so far.
  std::string output() const;
  std::string errors() const;
  // Whether it has ended; reaps it then.
  bool ended();
  void signal(int number) const;
  ChildOutcome outcome() const;

 private:
  friend void wait_for(const std::vector<Child*>& children, int timeout_ms,
                       const Supervisor& supervisor);
  UniqueFd output_, errors_, process_;
  pid_t pid_ = -1;
  bool running_ = false, timed_out_ = false;
  int status_ = 0;
  uint64_t started_ns_ = 0, ended_ns_ = 0;
};

// Waits until all have ended; what still runs after timeout_ms is killed. Throws Interrupted.
void wait_for(const std::vector<Child*>& children, int timeout_ms, const Supervisor& supervisor);

// Starts and waits.
ChildOutcome run_child(const std::vector<std::string>& command, const Environment& environment,
                       int timeout_ms, const Supervisor& supervisor);

// Waits for up to timeout_ms, or until the user interrupts (throws Interrupted).
void pause_ms(int timeout_ms, const Supervisor& supervisor);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_CHILD_H_
