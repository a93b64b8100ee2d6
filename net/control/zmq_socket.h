// Owners of what libzmq gives out, and whole messages over its sockets.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_ZMQ_SOCKET_H_
#define VGPU_NET_CONTROL_ZMQ_SOCKET_H_

#include <zmq.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace vgpu::net {

// Ends when all its sockets are closed. Its threads live in the files, and with the signals, of the
// thread that makes the first socket.
class ZmqContext {
 public:
  ZmqContext() : context_(zmq_ctx_new()) {}
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;
  ~ZmqContext() {
    if (context_ != nullptr) (void)zmq_ctx_term(context_);
  }
  void* get() const { return context_; }

 private:
  void* context_;
};

using Frame = std::vector<uint8_t>;

// What has come, and what libzmq knows about where from.
struct ZmqMessage {
  std::vector<Frame> frames;
  std::string user;     // that the ZAP handler gave
  std::string address;  // of the peer
  int descriptor = -1;  // of the connection, as the monitor names it
};

struct ZmqEvent {
  int event = 0;   // ZMQ_EVENT_…
  int value = -1;  // descriptor or error, by the event
};

// Movable; not thread-safe. Nothing waits when it closes: linger is 0 unless set.
class ZmqSocket {
 public:
  ZmqSocket() = default;
  static Result<ZmqSocket> open(const ZmqContext& context, int type);
  ZmqSocket(ZmqSocket&& other) noexcept : socket_(std::exchange(other.socket_, nullptr)) {}
  ZmqSocket& operator=(ZmqSocket&& other) noexcept {
    if (this != &other) {
      close();
      socket_ = std::exchange(other.socket_, nullptr);
    }
    return *this;
  }
  ~ZmqSocket() { close(); }
  void close() {
    if (socket_ != nullptr) (void)zmq_close(socket_);
    socket_ = nullptr;
  }
  bool valid() const { return socket_ != nullptr; }
  void* get() const { return socket_; }

  Status set(int option, int value);
  Status set(int option, const std::string& value);
  Status set(int option, int64_t value);
  Status bind(const std::string& endpoint);
  Status connect(const std::string& endpoint);

  // Never waits. kTimedOut: nothing is there. Of frames beyond `frames_max` nothing is kept, but
  // one to tell.
  Result<ZmqMessage> receive(size_t frames_max);
  // Never waits. kUnavailable: the peer is gone, or takes no more.
  Status send(std::span<const std::span<const uint8_t>> frames);

  // Events of this socket come to the monitor that is returned.
  Result<ZmqSocket> monitor(const ZmqContext& context, const std::string& name, int events);
  // The next event of a monitor; false: none is there.
  bool next_event(ZmqEvent* event);

 private:
  explicit ZmqSocket(void* socket) : socket_(socket) {}
  void* socket_ = nullptr;
};

// The failure of `what` with errno as libzmq left it.
Status zmq_failure(const std::string& what);

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_ZMQ_SOCKET_H_
