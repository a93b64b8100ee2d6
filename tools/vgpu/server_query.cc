// One question and one answer over the server's socket.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/server_query.h"

#include <cerrno>

#include "protocol/session/handshake.h"
#include "protocol/transport/connect.h"
#include "protocol/transport/net_plugin.h"
#include "tools/vgpu/places.h"

namespace vgpu::tools {
namespace {

ServerState state_of_connect_error(const Status& status) {
  switch (status.os_error()) {
    case ENOENT:
    case ENOTDIR:
      return ServerState::kNoSocket;
    case EAGAIN:
      return ServerState::kSilent;
    case ECONNREFUSED:
      return ServerState::kNobodyListens;
    case EACCES:
    case EPERM:
      return ServerState::kNotPermitted;
    case EPROTOTYPE:
    case ENOTSOCK:
      return ServerState::kNotAServer;
    default:
      break;
  }
  return status.code() == StatusCode::kInvalidArgument ? ServerState::kBadAddress
                                                       : ServerState::kNobodyListens;
}

ServerState state_of_receive_error(const Status& status) {
  switch (status.code()) {
    case StatusCode::kTimedOut:
      return ServerState::kSilent;
    case StatusCode::kMalformed:
    case StatusCode::kMismatch:
      return ServerState::kWrongVersion;
    default:
      return ServerState::kRefused;
  }
}

ServerState state_of_network_error(const Status& status) {
  switch (status.code()) {
    case StatusCode::kPermissionDenied:
      return ServerState::kNotAdmitted;
    case StatusCode::kMalformed:
      return ServerState::kWrongVersion;
    case StatusCode::kTimedOut:
      return ServerState::kSilent;
    default:
      return ServerState::kNotReached;
  }
}

Result<protocol::Message> ask_network(const protocol::Address& address,
                                      const protocol::Message& request, int timeout_ms) {
  const Result<const protocol::NetPlugin*> plugin =
      protocol::load_net_plugin(find_places().net_plugin);
  if (!plugin.ok()) return plugin.status();
  return protocol::ask_by_plugin(**plugin, address, request, timeout_ms);
}

// Fills everything of the answer but what a particular reply brings; null when there is none.
std::optional<protocol::Message> ask(const std::string& address, const protocol::Message& request,
                                     int timeout_ms, ServerAnswer* answer) {
  const Result<protocol::Address> place =
      address.empty() ? protocol::default_address() : protocol::parse_address(address);
  answer->address = place.ok() ? place->to_string() : address;
  const auto fail = [&](ServerState state, const std::string& detail) {
    answer->state = state;
    answer->detail = detail;
    return std::nullopt;
  };
  if (!place.ok()) return fail(ServerState::kBadAddress, place.status().text());
  const auto or_refused = [&](protocol::Message message) -> std::optional<protocol::Message> {
    if (auto* refusal = std::get_if<protocol::Refusal>(&message)) {
      return fail(refusal->code == protocol::kCudaSystemDriverMismatch ? ServerState::kWrongVersion
                                                                       : ServerState::kRefused,
                  refusal->text);
    }
    return message;
  };
  if (place->kind == protocol::Address::Kind::kTcp) {
    Result<protocol::Message> said = ask_network(*place, request, timeout_ms);
    if (!said.ok()) return fail(state_of_network_error(said.status()), said.status().text());
    return or_refused(std::move(*said));
  }
  if (place->kind != protocol::Address::Kind::kUnix) {
    return fail(ServerState::kBadAddress, "loop: is inside one process only");
  }
  Result<UniqueFd> socket = protocol::connect_unix(place->path, timeout_ms);
  if (!socket.ok()) return fail(state_of_connect_error(socket.status()), socket.status().text());
  if (Status sent = protocol::send_message(socket->get(), request); !sent.ok()) {
    return fail(ServerState::kRefused, sent.text());
  }
  auto received = protocol::receive_message(socket->get(), timeout_ms);
  if (!received.ok()) {
    return fail(state_of_receive_error(received.status()), received.status().text());
  }
  return or_refused(std::move(received->message));
}

// The reply of one kind, when that is what comes.
template <typename Reply>
ServerAnswer ask_for(const std::string& address, const protocol::Message& request, int timeout_ms,
                     Reply* reply) {
  ServerAnswer answer;
  std::optional<protocol::Message> message = ask(address, request, timeout_ms, &answer);
  if (!message) return answer;
  if (auto* wanted = std::get_if<Reply>(&*message)) {
    answer.state = ServerState::kAnswers;
    *reply = std::move(*wanted);
  } else {
    answer.state = ServerState::kWrongVersion;
    answer.detail = std::string("it answered with ") + protocol::message_name(*message);
  }
  return answer;
}

}  // namespace

ServerAnswer query_server(const std::string& address, int timeout_ms) {
  protocol::InfoReply info;
  ServerAnswer answer = ask_for(address, protocol::InfoRequest{}, timeout_ms, &info);
  answer.info = std::move(info);
  return answer;
}

ServerAnswer query_guests(const std::string& address, uint64_t after,
                          protocol::GuestsReply* guests) {
  return ask_for(address, protocol::GuestsRequest{after}, kQueryTimeoutMs, guests);
}

ServerAnswer steer_server(const std::string& address, const protocol::SteerRequest& request,
                          protocol::SteerReply* reply) {
  return ask_for(address, request, kQueryTimeoutMs, reply);
}

ServerAnswer stop_server(const std::string& address, bool force, uint32_t* guests_left) {
  protocol::StopReply stopped;
  ServerAnswer answer = ask_for(address, protocol::StopRequest{force}, kQueryTimeoutMs, &stopped);
  *guests_left = stopped.guests_left;
  return answer;
}

std::string problem_text(const ServerAnswer& answer) {
  const std::string at = " at " + answer.address;
  const std::string because = answer.detail.empty() ? "" : " (" + answer.detail + ")";
  switch (answer.state) {
    case ServerState::kAnswers:
      return "";
    case ServerState::kBadAddress:
      return "not an address of a server: " + answer.address + because;
    case ServerState::kNoSocket:
      return "no server" + at + ": there is no such socket";
    case ServerState::kNobodyListens:
      return "no server" + at + ": the socket is there, but nobody listens";
    case ServerState::kNotPermitted:
      return "permission denied" + at;
    case ServerState::kNotAServer:
      return "what is" + at + " is not a vGPU server" + because;
    case ServerState::kRefused:
      return "the server" + at + " refused" + because;
    case ServerState::kWrongVersion:
      return "the server" + at + " speaks another version of the protocol" + because;
    case ServerState::kSilent:
      return "the server" + at + " does not answer";
    case ServerState::kNotReached:
      return "no connection to a server" + at + because;
    case ServerState::kNotAdmitted:
      return "not admitted" + at + because;
  }
  return "";
}

std::string advice_text(const ServerAnswer& answer) {
  switch (answer.state) {
    case ServerState::kAnswers:
      return "";
    case ServerState::kBadAddress:
      return "give --server (or VGPU_SERVER) as unix:/absolute/path or tcp://host:port";
    case ServerState::kNoSocket:
      return "start one with: vgpud --listen " + answer.address +
             "   (no GPU needed: add --driver soft)";
    case ServerState::kNobodyListens:
      return "its server has ended; start it again with: vgpud --listen " + answer.address;
    case ServerState::kNotPermitted:
      return "run vgpud as this user, or start it with --socket-mode 0660 and join its group";
    case ServerState::kNotAServer:
      return "choose another path for vgpud --listen, and the same for --server";
    case ServerState::kRefused:
      return "the server's log says more (journalctl -u vgpud, or vgpud's stderr)";
    case ServerState::kWrongVersion:
      return "install the same version of vGPU for guests and server, then restart vgpud";
    case ServerState::kSilent:
      return "it may be starting or stuck; look at its log, then restart vgpud (guests go on)";
    case ServerState::kNotReached:
      return "vgpu doctor --server " + answer.address +
             " looks at keys and plug-in; on the server: "
             "vgpud --listen tcp://ADDRESS:PORT, and a firewall that lets it through";
    case ServerState::kNotAdmitted:
      return "on the server: vgpu key authorize with what vgpu key show prints here";
  }
  return "";
}

}  // namespace vgpu::tools
