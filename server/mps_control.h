// The dialogue with NVIDIA's MPS control daemon, by its own program. Unverified until run on
// hardware: the tests play the documented answers.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_MPS_CONTROL_H_
#define VGPU_SERVER_MPS_CONTROL_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace vgpu::server {

inline constexpr size_t kMpsAnswerBytesMax = 64 << 10;
inline constexpr size_t kMpsPidsMax = 4096;  // far more than the 48 clients that a device has

// One control daemon, named by its pipe directory. Every call starts the control program with one
// command on its standard input, and blocks for at most `timeout_ms`: kTimedOut, and the program is
// killed. kUnavailable: it cannot be started, or its exit code is not 0, as when no daemon answers.
// kMalformed: the answer is none that is documented.
class MpsControl {
 public:
  // `user`: whose the daemon is, and the control program with it; 0: this process's own.
  MpsControl(std::string program, std::string pipe_directory, std::string log_directory,
             uid_t user = 0)
      : program_(std::move(program)),
        pipe_directory_(std::move(pipe_directory)),
        log_directory_(std::move(log_directory)),
        user_(user) {}

  const std::string& program() const { return program_; }
  // The environment of the daemon, and of whoever speaks to it.
  std::vector<std::string> settings() const;
  // Until the first answer, as after the daemon's start. `process`, its pidfd: its end is waited
  // for as well.
  Status wait_until_it_answers(int process, int timeout_ms) const;

  // get_server_list: processes of MPS servers.
  Result<std::vector<pid_t>> servers(int timeout_ms) const;
  // get_client_list: processes that are connected to a server.
  Result<std::vector<pid_t>> clients(pid_t server, int timeout_ms) const;
  // terminate_client on the server that has it, then waits until no server lists it. Ok also when
  // none had it. After any failure the client may still be there: killing it all the same is
  // undefined for those beside it, so that is the caller's last resort.
  Status end_client(pid_t client, int timeout_ms) const;
  // quit: the daemon ends its servers and itself.
  Status quit(int timeout_ms) const;

 private:
  // The answer to one command, whole.
  Result<std::string> ask(const std::string& command, uint64_t deadline_ns) const;
  Result<std::vector<pid_t>> ask_pids(const std::string& command, uint64_t deadline_ns) const;
  // The server that has the client; 0: none.
  Result<pid_t> server_of(pid_t client, uint64_t deadline_ns) const;

  std::string program_, pipe_directory_, log_directory_;
  uid_t user_;
};

// Process numbers, one a line; kMalformed for anything else. Zero, one and the like are refused:
// the numbers go back into commands.
Result<std::vector<pid_t>> parse_mps_pids(const std::string& answer);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_MPS_CONTROL_H_
