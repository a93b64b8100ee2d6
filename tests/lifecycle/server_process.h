// A vgpud of a test's own, and the questions a test asks it.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_LIFECYCLE_SERVER_PROCESS_H_
#define VGPU_TESTS_LIFECYCLE_SERVER_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "protocol/session/handshake.h"

namespace vgpu::testing {

struct Finished {
  int code = 0;  // exit code, or minus the signal
  std::string output;
};

// Runs a program to its end and collects stdout and stderr. `environment` are settings NAME=VALUE.
Finished run_program(const std::vector<std::string>& words,
                     const std::vector<std::string>& environment = {});

// Starts vgpud at a socket in a fresh folder; ends it, its guests and the folder with itself.
class ServerProcess {
 public:
  // `soft_driver`: the library that --driver soft means.
  explicit ServerProcess(std::vector<std::string> arguments = {},
                         std::string soft_driver = MEMORY_DRIVER);
  ~ServerProcess();

  void start();                 // waits until it answers
  void kill_hard();             // SIGKILL: as if it had crashed
  int stop(bool force = true);  // by request; its exit code

  pid_t pid() const { return pid_; }
  protocol::Address address() const { return {protocol::Address::Kind::kUnix, path_}; }
  const std::string& path() const { return path_; }
  std::optional<protocol::InfoReply> info() const;
  std::optional<protocol::Message> ask(const protocol::Message& question) const;

 private:
  std::vector<std::string> arguments_;
  std::string soft_driver_, folder_, path_;
  pid_t pid_ = 0;
};

// Polls until `done`; false when it never was.
bool eventually(const std::function<bool()>& done);
double now_ms();

}  // namespace vgpu::testing

#endif  // VGPU_TESTS_LIFECYCLE_SERVER_PROCESS_H_
