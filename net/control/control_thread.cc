// Connecting, asking, beating.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/control_thread.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "net/control/control_limits.h"
#include "net/control/knock.h"
#include "protocol/session/handshake.h"
#include "protocol/transport/control_socket.h"

namespace vgpu::net {
namespace {

constexpr int kEvents = ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED |
                        ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

int32_t cuda_error_of_failure(const Status& status) {
  // Not admitted is an answer; all else looks like a machine without a GPU.
  return status.code() == StatusCode::kPermissionDenied ? protocol::kCudaNotPermitted
                                                        : protocol::kCudaNoDevice;
}

}  // namespace

int ControlThread::left_ms() const {
  const uint64_t now = monotonic_ms();
  return now >= request_.deadline_ms ? 0 : static_cast<int>(request_.deadline_ms - now);
}

// Every address of the host, as numbers: libzmq would try the first alone.
Status ControlThread::resolve(std::vector<std::string>* endpoints) const {
  const protocol::Address& address = request_.address;
  std::string host = address.host;
  if (host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {  // on a machine with nothing but a loopback device
    hints.ai_flags = 0;
    error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  }
  if (error != 0) {
    return Status(StatusCode::kUnavailable, "no host " + host + ": " + ::gai_strerror(error));
  }
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    char number[NI_MAXHOST];
    if (::getnameinfo(each->ai_addr, each->ai_addrlen, number, sizeof(number), nullptr, 0,
                      NI_NUMERICHOST) != 0) {
      continue;
    }
    const std::string text = each->ai_family == AF_INET6 ? "[" + std::string(number) + "]" : number;
    endpoints->push_back("tcp://" + text + ":" + std::to_string(address.port));
  }
  ::freeaddrinfo(found);
  return endpoints->empty() ? Status(StatusCode::kUnavailable, "no address of " + host)
                            : ok_status();
}

Status ControlThread::connect(const std::string& endpoint) {
  Result<ZmqSocket> socket = ZmqSocket::open(context_, ZMQ_DEALER);
  if (!socket.ok()) return socket.status();
  const bool ipv6 = endpoint.find('[') != std::string::npos;
  VGPU_RETURN_IF_ERROR(socket->set(ZMQ_IPV6, ipv6 ? 1 : 0));
  VGPU_RETURN_IF_ERROR(socket->set(ZMQ_CURVE_SERVERKEY, request_.keys.server));
  VGPU_RETURN_IF_ERROR(socket->set(ZMQ_CURVE_PUBLICKEY, request_.keys.own.public_key));
  VGPU_RETURN_IF_ERROR(socket->set(ZMQ_CURVE_SECRETKEY, request_.keys.own.secret_key));
  VGPU_RETURN_IF_ERROR(socket->set(ZMQ_IMMEDIATE, 1));  // nothing waits for a connection
  VGPU_RETURN_IF_ERROR(socket->set(ZMQ_RECONNECT_IVL, kReconnectMs));
  VGPU_RETURN_IF_ERROR(socket->set(ZMQ_CONNECT_TIMEOUT, kConnectMs));
  VGPU_RETURN_IF_ERROR(socket->set(ZMQ_HANDSHAKE_IVL, kPathMs));
  VGPU_RETURN_IF_ERROR(socket->set(ZMQ_TCP_MAXRT, kPathMs));
  VGPU_RETURN_IF_ERROR(socket->set(ZMQ_MAXMSGSIZE, int64_t{protocol::kControlMessageBytesMax}));
  VGPU_RETURN_IF_ERROR(socket->set(ZMQ_RCVHWM, kMessagesWaitingMax));
  VGPU_RETURN_IF_ERROR(socket->set(ZMQ_SNDHWM, kMessagesWaitingMax));
  Result<ZmqSocket> monitor =
      socket->monitor(context_, "guest-" + std::to_string(++monitors_), kEvents);
  if (!monitor.ok()) return monitor.status();
  VGPU_RETURN_IF_ERROR(socket->connect(endpoint));
  monitor_ = std::move(monitor).value();
  socket_ = std::move(socket).value();
  endpoint_ = endpoint;
  return ok_status();
}

Status ControlThread::no_way(Way way) const {
  const std::string place = request_.address.endpoint();
  switch (way) {
    case Way::kNobody:
      return Status(StatusCode::kUnavailable, "no server answers at " + place);
    case Way::kNotAdmitted:
      return Status(StatusCode::kPermissionDenied,
                    "the server does not admit this guest's key " + request_.keys.own.public_key);
    case Way::kNotTheServer:
      return Status(
          StatusCode::kUnavailable,
          "what answers at " + place + " is not the server with the key " + request_.keys.server);
    default:
      return Status(StatusCode::kUnavailable, "the server closed the connection");
  }
}

ControlThread::Way ControlThread::look() {
  Way way = Way::kNothing;
  ZmqEvent event;
  while (monitor_.next_event(&event)) {
    switch (event.event) {
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        way = Way::kReady;
        break;
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        return Way::kNotAdmitted;
      case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        return Way::kNotTheServer;
      case ZMQ_EVENT_DISCONNECTED:
        way = Way::kGone;
        break;
      default:
        if (way == Way::kNothing) way = Way::kNobody;
    }
  }
  return way;
}

Status ControlThread::wait_until_ready() {
  for (;;) {
    zmq_pollitem_t item = {monitor_.get(), 0, ZMQ_POLLIN, 0};
    const int left = left_ms();
    if (left == 0 || zmq_poll(&item, 1, left) == 0) {
      return Status(StatusCode::kTimedOut,
                    "no server answers at " + request_.address.endpoint() + " in time");
    }
    const Way way = look();
    if (way == Way::kReady) return ok_status();
    if (way != Way::kNothing) return no_way(way);
  }
}

Status ControlThread::connect_any() {
  std::vector<std::string> endpoints;
  VGPU_RETURN_IF_ERROR(resolve(&endpoints));
  Status status;
  for (const std::string& endpoint : endpoints) {
    VGPU_RETURN_IF_ERROR(connect(endpoint));
    status = wait_until_ready();
    if (status.ok() || left_ms() == 0) break;
  }
  return status;
}

void ControlThread::say(const protocol::Message& message) {
  const std::vector<uint8_t> bytes = protocol::encode_message(message);
  const std::span<const uint8_t> frame(bytes);
  (void)socket_.send({&frame, 1});
}

// Sends the request and waits for one message.
Status ControlThread::ask() {
  const std::vector<uint8_t> bytes = protocol::encode_message(request_.message);
  const std::span<const uint8_t> frame(bytes);
  bool sent = false;
  for (;;) {
    // The pipe may be ready a moment after the connection.
    sent = sent || socket_.send({&frame, 1}).ok();
    zmq_pollitem_t items[] = {{socket_.get(), 0, ZMQ_POLLIN, 0},
                              {monitor_.get(), 0, ZMQ_POLLIN, 0}};
    const int left = left_ms();
    if (left == 0) {
      return Status(StatusCode::kTimedOut,
                    "the server at " + request_.address.endpoint() + " does not answer");
    }
    if (zmq_poll(items, 2, sent ? left : std::min(left, 1)) <= 0) continue;
    if ((items[0].revents & ZMQ_POLLIN) != 0) return ok_status();
    const Way way = look();
    if (way != Way::kNothing && way != Way::kReady) return no_way(way);
  }
}

ControlAnswer ControlThread::exchange() {
  ControlAnswer answer;
  Status status = connect_any();
  if (status.ok()) status = ask();
  Result<protocol::Message> decoded = status;
  if (status.ok()) {
    const Result<ZmqMessage> received = socket_.receive(1);
    decoded = received.ok() && received->frames.size() == 1
                  ? protocol::decode_message(received->frames[0])
                  : Result<protocol::Message>(
                        Status(StatusCode::kMalformed, "the server's answer is not one message"));
  }
  if (!decoded.ok()) {
    answer.status = decoded.status();
    answer.cuda_error = cuda_error_of_failure(answer.status);
    return answer;
  }
  if (const auto* refusal = std::get_if<protocol::Refusal>(&*decoded)) {
    answer.status = Status(StatusCode::kRefused, refusal->text);
    answer.cuda_error = refusal->code;
    return answer;
  }
  const auto* attached = std::get_if<protocol::NetAttached>(&*decoded);
  const auto* asked = std::get_if<protocol::NetAttach>(&request_.message);
  if (asked != nullptr && attached == nullptr) {
    answer.status = Status(StatusCode::kMalformed, "the server's answer is none to a hello");
  } else if (asked != nullptr) {
    answer.status = protocol::check_reply(asked->hello, attached->reply);
  }
  if (!answer.status.ok()) answer.cuda_error = protocol::cuda_error_of(answer.status.code());
  answer.message = std::move(*decoded);
  return answer;
}

// Takes what has come. False: the session is over.
bool ControlThread::hear(const protocol::NetAttached& attached, int lifeline) {
  for (;;) {
    const Result<ZmqMessage> received = socket_.receive(1);
    if (!received.ok()) return true;
    if (received->frames.size() != 1) continue;
    const Result<protocol::Message> message = protocol::decode_message(received->frames[0]);
    if (!message.ok()) continue;
    if (const auto* beat = std::get_if<protocol::NetBeat>(&*message)) {
      if (beat->session != attached.reply.session) continue;
      heard_ms_ = patience_.ms();
      lost_ms_ = 0;
    } else if (const auto* resumed = std::get_if<protocol::NetResumed>(&*message)) {
      if (!wish_ || resumed->session != wish_->session || resumed->epoch != wish_->epoch) continue;
      wish_.reset();
      (void)protocol::send_message(lifeline, *message);
    } else if (const auto* ended = std::get_if<protocol::NetEnded>(&*message)) {
      if (ended->session != attached.reply.session) continue;
      VGPU_LOG_WARN("the server: %s", ended->text.c_str());
      return false;
    } else if (const auto* refusal = std::get_if<protocol::Refusal>(&*message)) {
      VGPU_LOG_WARN("the server: %s", refusal->text.c_str());  // this key is admitted no longer
      return false;
    }
  }
}

// A descriptor, or a wish. False: nothing but the end has come.
bool ControlThread::hear_program(const protocol::NetAttached& attached, int lifeline) {
  Result<protocol::ControlFrame> frame = protocol::receive_frame(lifeline, 0);
  if (!frame.ok()) return frame.status().code() == StatusCode::kTimedOut;
  if (!frame->descriptors.empty()) {
    liveness_ = std::move(frame->descriptors[0]);
    return true;
  }
  const Result<protocol::Message> message = protocol::decode_message(frame->bytes);
  const auto* wish = message.ok() ? std::get_if<protocol::NetResume>(&*message) : nullptr;
  if (wish == nullptr) return false;
  wish_ = protocol::NetResume{attached.reply.session, wish->epoch};
  say(*wish_);
  return true;
}

// Whether the server is known to be gone, rather than not to be reached: its machine says that
// nobody listens.
bool ControlThread::lost_for_good(uint64_t now) {
  if (lost_ms_ == 0 || now - lost_ms_ < kLostMsOfGuest || now - knocked_ms_ < kBeatMs) return false;
  knocked_ms_ = now;
  return nobody_listens(endpoint_, kKnockMs);
}

void ControlThread::stay(const protocol::NetAttached& attached, int lifeline) {
  const bool over = beat_until_over(attached, lifeline);
  if (over && liveness_.valid()) (void)::shutdown(liveness_.get(), SHUT_RDWR);
}

// False: this side has said goodbye.
bool ControlThread::beat_until_over(const protocol::NetAttached& attached, int lifeline) {
  protocol::NetBeat beat{attached.reply.session, 0};
  patience_ = PatientClock(monotonic_ms());
  heard_ms_ = patience_.ms();
  uint64_t next_ms = monotonic_ms() + attached.beat_ms;
  for (;;) {
    zmq_pollitem_t items[] = {{socket_.get(), 0, ZMQ_POLLIN, 0},
                              {monitor_.get(), 0, ZMQ_POLLIN, 0},
                              {nullptr, lifeline, ZMQ_POLLIN, 0}};
    const uint64_t before = monotonic_ms();
    (void)zmq_poll(items, 3, next_ms > before ? static_cast<int>(next_ms - before) : 0);
    patience_.look(monotonic_ms());
    if (items[2].revents != 0 && !hear_program(attached, lifeline)) break;
    if ((items[0].revents & ZMQ_POLLIN) != 0 && !hear(attached, lifeline)) return true;
    const uint64_t now = monotonic_ms();
    if ((items[1].revents & ZMQ_POLLIN) != 0) {
      const Way way = look();
      if (way == Way::kReady) next_ms = now;
      if (way == Way::kNotAdmitted || way == Way::kNotTheServer) return true;
      if ((way == Way::kGone || way == Way::kNobody) && lost_ms_ == 0) lost_ms_ = patience_.ms();
    }
    const uint64_t listened = patience_.ms();
    if (lost_for_good(listened) || listened - heard_ms_ > attached.grace_ms) return true;
    if (now < next_ms) continue;
    ++beat.number;
    say(beat);
    if (wish_) say(*wish_);  // it, or the answer, may be lost
    next_ms = now + attached.beat_ms;
  }
  say(protocol::NetDetach{attached.reply.session});
  (void)socket_.set(ZMQ_LINGER, kGoodbyeMs);
  return false;
}

}  // namespace vgpu::net
