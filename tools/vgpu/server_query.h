// Asking a server who it is; every way in which that fails is told apart.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_SERVER_QUERY_H_
#define VGPU_TOOLS_VGPU_SERVER_QUERY_H_

#include <string>

#include "protocol/session/messages.h"

namespace vgpu::tools {

inline constexpr int kQueryTimeoutMs = 3000;

enum class ServerState {
  kAnswers,
  kBadAddress,     // the address itself makes no sense
  kNoSocket,       // there is no file of that name
  kNobodyListens,  // the file is there, its server is gone
  kNotPermitted,   // this user may not connect
  kNotAServer,     // something else has that name
  kRefused,        // it answered and said no
  kWrongVersion,   // it speaks another protocol
  kSilent,         // connected, but no answer in time
  kNotReached,     // on a network: no connection, or none that can be trusted
  kNotAdmitted,    // on a network: this guest's key is not one of the server's
};

struct ServerAnswer {
  ServerState state = ServerState::kSilent;
  std::string address;       // what was tried, with its scheme
  std::string detail;        // in the system's or the server's words
  protocol::InfoReply info;  // when it answers
};

// Asks the server at `address` (VGPU_SERVER or the default place when empty) for its state.
ServerAnswer query_server(const std::string& address, int timeout_ms = kQueryTimeoutMs);

// Asks for its guests after the one of this session number, and steers one.
ServerAnswer query_guests(const std::string& address, uint64_t after,
                          protocol::GuestsReply* guests);
ServerAnswer steer_server(const std::string& address, const protocol::SteerRequest& request,
                          protocol::SteerReply* reply);

// Asks it to stop; with `force` its guests are ended too. `guests_left` is set when it agreed.
ServerAnswer stop_server(const std::string& address, bool force, uint32_t* guests_left);

// One line that says what is wrong, and one that says what to do. Empty when it answers.
std::string problem_text(const ServerAnswer& answer);
std::string advice_text(const ServerAnswer& answer);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_SERVER_QUERY_H_
