// libzmq's C interface behind owners.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/zmq_socket.h"

#include <cerrno>
#include <cstring>

namespace vgpu::net {
namespace {

// One frame.
class Part {
 public:
  Part() { (void)zmq_msg_init(&part_); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() { (void)zmq_msg_close(&part_); }
  bool receive(void* socket) { return zmq_msg_recv(&part_, socket, ZMQ_DONTWAIT) >= 0; }
  bool more() const { return zmq_msg_more(&part_) != 0; }
  std::span<const uint8_t> bytes() {
    return {static_cast<const uint8_t*>(zmq_msg_data(&part_)), zmq_msg_size(&part_)};
  }
  std::string property(const char* name) {
    const char* text = zmq_msg_gets(&part_, name);
    return text != nullptr ? text : "";
  }
  // Of the connection that it came by; -1 for frames of our own making.
  int descriptor() { return zmq_msg_get(&part_, ZMQ_SRCFD); }

 private:
  zmq_msg_t part_;
};

}  // namespace

Status zmq_failure(const std::string& what) {
  const int error = zmq_errno();
  return Status(StatusCode::kSystem, what + ": " + zmq_strerror(error), error);
}

Result<ZmqSocket> ZmqSocket::open(const ZmqContext& context, int type) {
  if (context.get() == nullptr) return zmq_failure("zmq_ctx_new");
  ZmqSocket socket(zmq_socket(context.get(), type));
  if (!socket.valid()) return zmq_failure("zmq_socket");
  VGPU_RETURN_IF_ERROR(socket.set(ZMQ_LINGER, 0));
  return socket;
}

Status ZmqSocket::set(int option, int value) {
  if (zmq_setsockopt(socket_, option, &value, sizeof(value)) == 0) return ok_status();
  return zmq_failure("zmq_setsockopt " + std::to_string(option));
}

Status ZmqSocket::set(int option, int64_t value) {
  if (zmq_setsockopt(socket_, option, &value, sizeof(value)) == 0) return ok_status();
  return zmq_failure("zmq_setsockopt " + std::to_string(option));
}

Status ZmqSocket::set(int option, const std::string& value) {
  if (zmq_setsockopt(socket_, option, value.data(), value.size()) == 0) return ok_status();
  return zmq_failure("zmq_setsockopt " + std::to_string(option));
}

Status ZmqSocket::bind(const std::string& endpoint) {
  if (zmq_bind(socket_, endpoint.c_str()) == 0) return ok_status();
  return zmq_failure(endpoint);
}

Status ZmqSocket::connect(const std::string& endpoint) {
  if (zmq_connect(socket_, endpoint.c_str()) == 0) return ok_status();
  return zmq_failure(endpoint);
}

Result<ZmqMessage> ZmqSocket::receive(size_t frames_max) {
  ZmqMessage message;
  bool more = true;
  while (more) {
    Part part;
    if (!part.receive(socket_)) {
      if (zmq_errno() == EAGAIN && message.frames.empty()) {
        return Status(StatusCode::kTimedOut, "nothing has come");
      }
      return zmq_failure("zmq_msg_recv");
    }
    more = part.more();
    if (message.frames.size() <= frames_max) {
      const auto bytes = part.bytes();
      message.frames.emplace_back(bytes.begin(), bytes.end());
    }
    if (more) continue;
    message.user = part.property("User-Id");
    message.address = part.property("Peer-Address");
    message.descriptor = part.descriptor();
  }
  return message;
}

Status ZmqSocket::send(std::span<const std::span<const uint8_t>> frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const int flags = ZMQ_DONTWAIT | (i + 1 < frames.size() ? ZMQ_SNDMORE : 0);
    if (zmq_send(socket_, frames[i].data(), frames[i].size(), flags) < 0) {
      const Status status = zmq_failure("zmq_send");
      return Status(StatusCode::kUnavailable, status.text(), status.os_error());
    }
  }
  return ok_status();
}

Result<ZmqSocket> ZmqSocket::monitor(const ZmqContext& context, const std::string& name,
                                     int events) {
  const std::string endpoint = "inproc://" + name;
  if (zmq_socket_monitor(socket_, endpoint.c_str(), events) != 0) {
    return zmq_failure("zmq_socket_monitor");
  }
  Result<ZmqSocket> watcher = open(context, ZMQ_PAIR);
  if (!watcher.ok()) return watcher.status();
  VGPU_RETURN_IF_ERROR(watcher->connect(endpoint));
  return watcher;
}

bool ZmqSocket::next_event(ZmqEvent* event) {
  const Result<ZmqMessage> message = receive(2);
  // The first frame: 16 bits of event, 32 of value, packed.
  if (!message.ok() || message->frames.empty() || message->frames[0].size() < 6) return false;
  uint16_t number;
  std::memcpy(&number, message->frames[0].data(), sizeof(number));
  std::memcpy(&event->value, message->frames[0].data() + sizeof(number), sizeof(event->value));
  event->event = number;
  return true;
}

}  // namespace vgpu::net
