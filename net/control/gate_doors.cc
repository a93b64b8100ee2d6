// Who comes in: the handler of keys, the listening socket, the count of connections.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/clock.h"
#include "base/log.h"
#include "net/control/gate.h"
#include "protocol/limits.h"

namespace vgpu::net {
namespace {

constexpr char kKeysEndpoint[] = "inproc://zeromq.zap.01";  // fixed by ZeroMQ's RFC 27
constexpr char kKeysDomain[] = "vgpu";
// In libzmq since 4.3, though its header shows it to drafts only: without a handler of keys nobody
// gets in, where otherwise everybody would.
constexpr int kZapEnforceDomain = 93;
constexpr size_t kRawKeyBytes = 32;
constexpr size_t kZapFrames = 7;  // version, request, domain, address, identity, mechanism, key

uint64_t resident_bytes() {
  // The second number of statm: pages.
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long all = 0, resident = 0;  // NOLINT(google-runtime-int)
  const int read = std::fscanf(file, "%llu %llu", &all, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

std::string text_of(const Frame& frame) { return {frame.begin(), frame.end()}; }

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

Status set_up(ZmqSocket* router, const KeyPair& key, int listener) {
  VGPU_RETURN_IF_ERROR(router->set(ZMQ_CURVE_SERVER, 1));
  VGPU_RETURN_IF_ERROR(router->set(ZMQ_CURVE_SECRETKEY, key.secret_key));
  VGPU_RETURN_IF_ERROR(router->set(ZMQ_ZAP_DOMAIN, std::string(kKeysDomain)));
  VGPU_RETURN_IF_ERROR(router->set(kZapEnforceDomain, 1));
  VGPU_RETURN_IF_ERROR(router->set(ZMQ_USE_FD, listener));
  VGPU_RETURN_IF_ERROR(router->set(ZMQ_HANDSHAKE_IVL, kHandshakeMs));
  VGPU_RETURN_IF_ERROR(router->set(ZMQ_MAXMSGSIZE, int64_t{protocol::kControlMessageBytesMax}));
  VGPU_RETURN_IF_ERROR(router->set(ZMQ_RCVHWM, kMessagesWaitingMax));
  VGPU_RETURN_IF_ERROR(router->set(ZMQ_SNDHWM, kMessagesWaitingMax));
  return router->set(ZMQ_ROUTER_MANDATORY, 1);
}

}  // namespace

Status Gate::open_door() {
  if (!keys_door_.valid()) {
    Result<ZmqSocket> door = ZmqSocket::open(context_, ZMQ_ROUTER);
    if (!door.ok()) return door.status();
    VGPU_RETURN_IF_ERROR(door->bind(kKeysEndpoint));
    keys_door_ = std::move(door).value();
  }
  Result<ZmqSocket> router = ZmqSocket::open(context_, ZMQ_ROUTER);
  if (!router.ok()) return router.status();
  const Result<int> listener = listener_->copy();
  if (!listener.ok()) return listener.status();
  VGPU_RETURN_IF_ERROR(set_up(&*router, key_, *listener));
  Result<ZmqSocket> monitor = router->monitor(
      context_, "gate-" + std::to_string(++doors_),
      ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
          ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
  if (!monitor.ok()) return monitor.status();
  router_ = std::move(router).value();
  monitor_ = std::move(monitor).value();
  connections_.clear();
  VGPU_RETURN_IF_ERROR(router_.bind(listener_->endpoint()));
  if (memory_first_ == 0) memory_first_ = resident_bytes();
  return ok_status();
}

void Gate::try_listen() {
  Result<Listener> listener = Listener::open(options_.address);
  Status status = listener.status();
  if (listener.ok()) {
    listener_ = std::move(*listener);
    status = open_door();
  }
  if (status.ok()) return;
  if (status.code() == StatusCode::kAlreadyExists && monotonic_ms() < listen_until_ms_) return;
  VGPU_LOG_ERROR("cannot listen at %s: %s", options_.address.to_string().c_str(),
                 status.text().c_str());
  exit_code_ = 3;
}

bool Gate::memory_has_grown() {
  return memory_first_ != 0 && resident_bytes() > memory_first_ + kMemoryGrowthMax;
}

void Gate::mind_door() {
  if (alone_ || exit_code_ != 0) return;
  if (!listener_) {
    try_listen();
    return;
  }
  const bool rest = connections_.size() >= (resting_ ? kConnectionsMax * 3 / 4 : kConnectionsMax);
  if (rest == resting_) return;
  if (rest) VGPU_LOG_WARN("%zu connections: no more for now", connections_.size());
  if (const Status done = listener_->rest(rest); done.ok()) resting_ = rest;
}

// One request of libzmq: may this key come in?
void Gate::check_key() {
  keys_changed_ |= authorized_.refresh();
  while (true) {
    const Result<ZmqMessage> asked = keys_door_.receive(kZapFrames + 2);
    if (!asked.ok()) return;
    // A router's frames: who asks, an empty one, then the request.
    if (asked->frames.size() != kZapFrames + 2) continue;
    const auto& frames = asked->frames;
    const auto field = [&](size_t i) { return text_of(frames[i + 2]); };
    std::string key, status = "400", reason = "this key is not admitted";
    if (field(0) == "1.0" && field(2) == kKeysDomain && field(5) == "CURVE" &&
        frames[8].size() == kRawKeyBytes) {
      char text[protocol::kKeyBytes + 1] = {};
      (void)zmq_z85_encode(text, frames[8].data(), kRawKeyBytes);
      key = text;
    }
    if (!key.empty() && authorized_.tenant_of(key) != nullptr) {
      status = "200";
      reason = "OK";
    } else {
      ++report_.strangers;
      if (strange_line()) {
        VGPU_LOG_WARN("refused a connection from %s: key %s is not in %s", field(3).c_str(),
                      key.empty() ? "?" : key.c_str(), authorized_.path().c_str());
      }
    }
    const std::string user = status == "200" ? key : "";
    const std::span<const uint8_t> parts[] = {frames[0],      frames[1],        bytes_of("1.0"),
                                              frames[3],      bytes_of(status), bytes_of(reason),
                                              bytes_of(user), bytes_of("")};
    (void)keys_door_.send(parts);
  }
}

void Gate::watch_connections() {
  ZmqEvent event;
  while (monitor_.next_event(&event)) {
    switch (event.event) {
      case ZMQ_EVENT_ACCEPTED:
        connections_.insert(event.value);
        break;
      case ZMQ_EVENT_DISCONNECTED:
        connections_.erase(event.value);
        connection_gone(event.value);
        break;
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        break;  // check_key has counted it
      default:
        ++report_.strangers;
        if (strange_line()) {
          VGPU_LOG_WARN(
              "refused a connection that does not know this server's key, or speaks "
              "something else (event %d, %d)",
              event.event, event.value);
        }
    }
  }
}

}  // namespace vgpu::net
