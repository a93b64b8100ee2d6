// Asking a server which driver it has, without becoming its guest.
// SPDX-License-Identifier: Apache-2.0
#include "shim/driver_version.h"

#include <cuda.h>
#include <poll.h>

#include <atomic>
#include <variant>

#include "base/log.h"
#include "protocol/session/handshake.h"
#include "protocol/transport/connect.h"
#include "shim/process.h"
#include "shim/server_library.h"

namespace vgpu::shim {
namespace {

constexpr int kAnswerTimeoutMs = 2000;
constexpr int kAsksMax = 200;  // a server that has just started does not know its driver yet
constexpr int kBetweenAsksMs = 10;

// 0: it does not know yet; negative: nobody answers.
int ask_once(const protocol::Address& address) {
  Result<UniqueFd> connection = protocol::connect_unix(address.path);
  if (!connection.ok()) return -1;
  if (!protocol::send_message(connection->get(), protocol::InfoRequest{}).ok()) return -1;
  auto received = protocol::receive_message(connection->get(), kAnswerTimeoutMs);
  if (!received.ok()) return -1;
  const auto* info = std::get_if<protocol::InfoReply>(&received->message);
  return info == nullptr ? -1 : info->driver_version;
}

int ask_server() {
  const Result<protocol::Address> address = server_address();
  if (!address.ok() || address->kind != protocol::Address::Kind::kUnix) return -1;
  int version = 0;
  for (int i = 0; i < kAsksMax && version == 0; ++i) {
    if (i > 0) ::poll(nullptr, 0, kBetweenAsksMs);
    version = ask_once(*address);
  }
  return version;
}

int find_version() {
  if (Session* session = Process::session(); session != nullptr) {
    return session->hello().driver_version;
  }
  const int version = ask_server();
  if (version > 0) return version;
  VGPU_LOG_INFO("no server says its driver's version: answering %d", CUDA_VERSION);
  return CUDA_VERSION;
}

}  // namespace

int driver_version() {
  static std::atomic<int> pinned{0};
  int version = pinned.load(std::memory_order_relaxed);
  if (version != 0) return version;
  const int now = find_version();
  return pinned.compare_exchange_strong(version, now, std::memory_order_relaxed) ? now : version;
}

}  // namespace vgpu::shim
