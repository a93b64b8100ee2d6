// libvgpu-net.so as the shim and the tools see it.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/clock.h"
#include "base/env.h"
#include "net/control/control_client.h"
#include "net/control/resumer.h"
#include "net/fabric/ends.h"
#include "protocol/transport/net_plugin.h"

namespace vgpu::net {
namespace {

using protocol::NetAnswer;
using protocol::NetRequest;

void put_failure(const Status& status, int32_t cuda_error, NetAnswer* answer) {
  answer->status = static_cast<int32_t>(status.code());
  answer->cuda_error = cuda_error;
  answer->put_text(answer->sink, status.text().data(), status.text().size());
}

void put_message(const protocol::Message& message, NetAnswer* answer) {
  const std::vector<uint8_t> bytes = protocol::encode_message(message);
  answer->put_message(answer->sink, bytes.data(), bytes.size());
}

// The address and the keys for it; false: the answer says why not.
bool prepare(const NetRequest& request, NetAnswer* answer, protocol::Address* address,
             ClientKeys* keys, protocol::Message* message) {
  Result<protocol::Address> place = protocol::parse_address(request.address);
  Result<protocol::Message> decoded =
      protocol::decode_message({request.message, request.message_bytes});
  Status status = !place.ok() ? place.status() : decoded.ok() ? ok_status() : decoded.status();
  if (status.ok() && (place->kind != protocol::Address::Kind::kTcp || place->port == 0)) {
    status = Status(StatusCode::kInvalidArgument, place->to_string() + " is no server's address");
  }
  Result<ClientKeys> found = status.ok() ? find_keys(*place) : Result<ClientKeys>(status);
  if (!found.ok()) {
    put_failure(found.status(), protocol::kCudaNoDevice, answer);
    return false;
  }
  *address = std::move(*place);
  *keys = std::move(*found);
  *message = std::move(*decoded);
  return true;
}

FabricTarget target_of(const protocol::Address& address, const protocol::NetAttached& attached) {
  FabricTarget target;
  target.provider.name = attached.provider;
  target.address.assign(attached.address.begin(), attached.address.end());
  target.fallback_host = address.host;
  target.secret = attached.secret;
  return target;
}

// Of VGPU_NETWORK_GRACE, in seconds; 0: none.
uint32_t wished_grace_ms() {
  const auto text = env_text("VGPU_NETWORK_GRACE");
  const double seconds = text ? std::strtod(std::string(*text).c_str(), nullptr) : 0;
  if (!(seconds > 0)) return 0;
  const double ms =
      std::clamp(seconds * 1000, double{protocol::kGraceMsMin}, double{protocol::kGraceMsMax});
  return static_cast<uint32_t>(ms);
}

void attach(const NetRequest* request, NetAnswer* answer) {
  protocol::Address address;
  ClientKeys keys;
  protocol::Message message = protocol::InfoRequest{};
  if (!prepare(*request, answer, &address, &keys, &message)) return;
  auto* hello = std::get_if<protocol::Hello>(&message);
  if (hello == nullptr) {
    put_failure(Status(StatusCode::kInternal, "not a hello"), protocol::kCudaNoDevice, answer);
    return;
  }
  protocol::NetAttach asked;
  asked.hello = std::move(*hello);
  asked.provider = address.provider;
  asked.require_encryption = env_bool("VGPU_REQUIRE_ENCRYPTION", false);
  asked.grace_ms = wished_grace_ms();
  const uint64_t begin_ms = monotonic_ms();
  ControlAnswer said = ask_server(address, std::move(keys), asked, request->timeout_ms);
  if (!said.status.ok()) {
    put_failure(said.status, said.cuda_error, answer);
    return;
  }
  // Registered before the data connection's, so that it runs after: what is on its way goes first.
  std::atexit(say_goodbye);
  const auto& attached = std::get<protocol::NetAttached>(said.message);
  const int left_ms = request->timeout_ms - static_cast<int>(monotonic_ms() - begin_ms);
  const int lifeline = said.lifeline.get();
  const FabricTarget target = target_of(address, attached);
  Result<std::unique_ptr<protocol::Transport>> transport =
      connect_fabric(target, attached.reply.sizes, std::max(left_ms, 1),
                     make_resumer(std::move(said.lifeline), target, attached.grace_ms));
  if (!transport.ok()) {
    put_failure(Status(StatusCode::kUnavailable, "no data connection by " + attached.provider +
                                                     ": " + transport.status().text()),
                protocol::kCudaNoDevice, answer);
    ::close(lifeline);  // and the session ends with it
    return;
  }
  tie_to_lifeline(lifeline, (*transport)->liveness_fd());
  put_message(attached.reply, answer);
  answer->channel = protocol::net_channel(std::move(*transport));
}

void ask(const NetRequest* request, NetAnswer* answer) {
  protocol::Address address;
  ClientKeys keys;
  protocol::Message message = protocol::InfoRequest{};
  if (!prepare(*request, answer, &address, &keys, &message)) return;
  const ControlAnswer said = ask_server(address, std::move(keys), message, request->timeout_ms);
  if (said.status.code() == StatusCode::kRefused) {
    put_message(protocol::Refusal{said.cuda_error, said.status.text()}, answer);
  } else if (!said.status.ok()) {
    put_failure(said.status, said.cuda_error, answer);
  } else {
    put_message(said.message, answer);
  }
}

bool make_keys(char* public_key, char* secret_key) {
  return zmq_curve_keypair(public_key, secret_key) == 0;
}

bool public_key_of(const char* secret_key, char* public_key) {
  return zmq_curve_public(public_key, secret_key) == 0;
}

}  // namespace
}  // namespace vgpu::net

extern "C" __attribute__((visibility("default"))) const vgpu::protocol::NetPlugin*
vgpu_net_plugin() {
  static const vgpu::protocol::NetPlugin plugin = {
      vgpu::protocol::kNetPluginVersion, 0, vgpu::net::attach, vgpu::net::ask, vgpu::net::make_keys,
      vgpu::net::public_key_of};
  return &plugin;
}
