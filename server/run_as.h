// Starting another program as another user, from a process with many threads.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_RUN_AS_H_
#define VGPU_SERVER_RUN_AS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace vgpu::server {

struct Program {
  std::string path;                    // absolute
  std::vector<std::string> arguments;  // without its name
  std::vector<std::string> settings;   // its whole environment, NAME=VALUE
  uid_t user = 0;                      // whose it is; 0: this process's own
  int input = -1, output = -1;         // its standard input and output; -1: /dev/null
};

// Starts it in a session of its own, without groups where it has another user, with nothing open
// but standard input, output and our standard error. The caller waits for its end. kUnavailable:
// it cannot be started; the text has its path and why.
Result<pid_t> run_as(const Program& program);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_RUN_AS_H_
