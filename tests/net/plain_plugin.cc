// libvgpu-net.so without keys, for tests: the rendezvous is a unix socket.
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "base/env.h"
#include "net/fabric/ends.h"
#include "protocol/transport/connect.h"
#include "protocol/transport/net_plugin.h"
#include "tests/net/plain_meet.h"

namespace vgpu::net {
namespace {

void put_failure(const Status& status, protocol::NetAnswer* answer) {
  answer->status = static_cast<int32_t>(status.code());
  answer->cuda_error =
      status.code() == StatusCode::kRefused ? status.os_error() : protocol::kCudaNoDevice;
  answer->put_text(answer->sink, status.text().data(), status.text().size());
}

void attach(const protocol::NetRequest* request, protocol::NetAnswer* answer) {
  auto message = protocol::decode_message({request->message, request->message_bytes});
  if (!message.ok()) return put_failure(message.status(), answer);
  Result<Met> met = meet(std::string(env_text(kRendezvousVariable).value_or("")),
                         std::get<protocol::Hello>(*message), request->timeout_ms);
  if (!met.ok()) return put_failure(met.status(), answer);
  const auto address = protocol::parse_address(request->address);
  if (address.ok() && !address->provider.empty()) met->target.provider.name = address->provider;
  auto transport = connect_fabric(met->target, met->reply.sizes, request->timeout_ms);
  if (!transport.ok()) return put_failure(transport.status(), answer);
  const std::vector<uint8_t> reply = protocol::encode_message(met->reply);
  answer->put_message(answer->sink, reply.data(), reply.size());
  answer->channel = protocol::net_channel(std::move(*transport));
}

}  // namespace
}  // namespace vgpu::net

extern "C" __attribute__((visibility("default"))) const vgpu::protocol::NetPlugin*
vgpu_net_plugin() {
  static const vgpu::protocol::NetPlugin plugin = [] {
    vgpu::protocol::NetPlugin made;
    made.attach = vgpu::net::attach;
    return made;
  }();
  return &plugin;
}
