// One request, one answer.
// SPDX-License-Identifier: Apache-2.0
#include "nvml/source.h"

#include <poll.h>

#include "base/env.h"
#include "protocol/session/guest_token.h"
#include "protocol/transport/connect.h"
#include "protocol/transport/control_socket.h"

namespace vgpu::nvml {
namespace {

constexpr int kAnswerTimeoutMs = 2000;
constexpr int kAsksMax = 200;  // until the server knows its devices
constexpr int kBetweenAsksMs = 10;

protocol::FiguresRequest make_request() {
  protocol::FiguresRequest request;
  if (const auto name = env_text("VGPU_NAME")) request.label = *name;
  if (const auto devices = env_text("VGPU_DEVICES"); devices && *devices != "all")
    request.devices = *devices;
  request.memory_bytes = env_size("VGPU_MEM", 0);
  if (const auto profile = env_text("VGPU_PROFILE")) request.profile = *profile;
  request.token = protocol::guest_token();
  return request;
}

Result<protocol::FiguresReply> ask_once(const std::string& path) {
  Result<UniqueFd> connection = protocol::connect_unix(path, kAnswerTimeoutMs);
  if (!connection.ok()) return connection.status();
  VGPU_RETURN_IF_ERROR(
      protocol::send_frame(connection->get(), protocol::encode_figures(make_request())));
  Result<protocol::ControlFrame> frame =
      protocol::receive_frame(connection->get(), kAnswerTimeoutMs);
  if (!frame.ok()) return frame.status();
  return protocol::decode_figures_reply(frame->bytes);
}

}  // namespace

Result<protocol::FiguresReply> ask_server() {
  const Result<protocol::Address> address = protocol::default_address();
  if (!address.ok()) return address.status();
  if (address->kind != protocol::Address::Kind::kUnix)
    return Status(StatusCode::kNotSupported, "only servers at a socket tell figures");
  Result<protocol::FiguresReply> figures = ask_once(address->path);
  for (int i = 1; i < kAsksMax && figures.ok() && figures->driver_version == 0; ++i) {
    (void)::poll(nullptr, 0, kBetweenAsksMs);
    figures = ask_once(address->path);
  }
  return figures;
}

}  // namespace vgpu::nvml
