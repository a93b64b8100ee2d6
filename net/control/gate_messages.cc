// What guests say to a gate, and what it answers.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "net/control/gate.h"
#include "protocol/session/handshake.h"
#include "protocol/transport/connect.h"
#include "protocol/transport/control_socket.h"

namespace vgpu::net {
namespace {

constexpr std::string_view kMapped = "::ffff:";
constexpr size_t kFramesOfMessage = 2;  // a router's: whose it is, and the message

}  // namespace

void Gate::take_messages() {
  // As many as there are now; what comes meanwhile waits for the others.
  for (size_t i = 0; i < kConnectionsMax; ++i) {
    const Result<ZmqMessage> message = router_.receive(kFramesMax);
    if (!message.ok()) return;
    take_message(*message);
  }
}

void Gate::take_message(const ZmqMessage& message) {
  Sender from;
  from.routing = message.frames[0];
  from.descriptor = message.descriptor;
  from.key = message.user;
  // One of IPv4 at a socket of both.
  from.address = message.address.starts_with(kMapped) ? message.address.substr(kMapped.size())
                                                      : message.address;
  // The key was admitted when the connection was made; it may not be any more.
  const std::string* tenant = authorized_.tenant_of(from.key);
  if (tenant == nullptr) {
    refuse(from, protocol::kCudaNotPermitted, "this key is not admitted any more");
    return;
  }
  from.tenant = *tenant;
  Result<protocol::Message> decoded = Status(StatusCode::kMalformed, "not one message");
  if (message.frames.size() == kFramesOfMessage)
    decoded = protocol::decode_message(message.frames[1]);
  if (!decoded.ok()) {
    ++report_.malformed;
    refuse(from, protocol::kCudaInvalidValue, decoded.status().text());
    return;
  }
  if (auto* attach = std::get_if<protocol::NetAttach>(&*decoded)) {
    attach_asked(from, std::move(*attach));
  } else if (auto* sign = std::get_if<protocol::NetBeat>(&*decoded)) {
    beat(from, *sign);
  } else if (auto* wish = std::get_if<protocol::NetResume>(&*decoded)) {
    resume(from, *wish);
  } else if (auto* goodbye = std::get_if<protocol::NetDetach>(&*decoded)) {
    detach(from, *goodbye);
  } else if (std::get_if<protocol::InfoRequest>(&*decoded) != nullptr) {
    question_asked(from);
  } else {
    ++report_.malformed;
    refuse(from, protocol::kCudaNotPermitted,
           std::string(protocol::message_name(*decoded)) + " is not for the network");
  }
}

Status Gate::may_attach(const Sender& from, const protocol::NetAttach& attach) {
  if (attach.hello.protocol_version != protocol::kProtocolVersion) {
    return protocol::check_hello(attach.hello, 0, "");  // names both sides
  }
  if (alone_) return Status(StatusCode::kUnavailable, "the server is stopping");
  if (!attaches_.take(from.key, monotonic_ms())) {
    return Status(StatusCode::kTimedOut, "too many attaches with this key: at most " +
                                             std::to_string(static_cast<int>(kAttachesPerSecond)) +
                                             " a second; try again");
  }
  if (options_.require_encryption || attach.require_encryption) {
    return Status(
        StatusCode::kPermissionDenied,
        std::string(options_.require_encryption ? "this server requires" : "you require") +
            " encryption, and no data connection of this version is encrypted");
  }
  const auto known = [&](const char* name) { return attach.provider == name; };
  if (!attach.provider.empty() &&
      std::none_of(std::begin(kProviders), std::end(kProviders), known)) {
    return Status(StatusCode::kInvalidArgument,
                  "no provider " + attach.provider + ": there are tcp, verbs and efa");
  }
  size_t pending = 0, of_key = 0;
  for (const auto& session : sessions_) {
    if (session->ended) continue;
    pending += session->number == 0;
    of_key += session->key == from.key;
    if (session->routing == from.routing) {
      return Status(StatusCode::kAlreadyExists, "this connection has a session already");
    }
  }
  if (sessions_.size() >= kSessionsMax || of_key >= kSessionsPerKeyMax) {
    return Status(StatusCode::kTimedOut, "too many remote guests; try again");
  }
  if (pending >= kPendingMax) {
    return Status(StatusCode::kTimedOut, "too many guests attach at once; try again");
  }
  return ok_status();
}

void Gate::attach_asked(const Sender& from, protocol::NetAttach attach) {
  Status status = may_attach(from, attach);
  if (status.ok()) status = start_session(from, std::move(attach));
  if (!status.ok()) {
    ++report_.refused;
    refuse(from, protocol::cuda_error_of(status.code()), status.to_string());
  }
}

// The session that this guest names, if it is its own; it is there then. It is told if there is
// none.
Gate::Session* Gate::heard_from(const Sender& from, uint64_t number) {
  for (const auto& session : sessions_) {
    if (session->ended || session->number == 0 || session->number != number ||
        session->key != from.key)
      continue;
    session->routing = from.routing;
    session->descriptor = from.descriptor;
    session->heard_ms = patience_.ms();
    session->lost_ms = 0;
    return session.get();
  }
  answer(from.routing, protocol::NetEnded{number, "the server knows no such session"});
  return nullptr;
}

void Gate::beat(const Sender& from, const protocol::NetBeat& beat) {
  if (heard_from(from, beat.session) != nullptr) answer(from.routing, beat);
}

// The session's process answers. Who asks too often is not heard, and asks again.
void Gate::resume(const Sender& from, const protocol::NetResume& resume) {
  Session* session = heard_from(from, resume.session);
  if (session == nullptr || !resumes_.take(from.key, monotonic_ms())) return;
  (void)protocol::send_frame(session->control.get(), protocol::encode_message(resume), {}, 0);
}

void Gate::detach(const Sender& from, const protocol::NetDetach& detach) {
  for (const auto& session : sessions_) {
    if (!session->ended && session->number != 0 && session->number == detach.session &&
        session->key == from.key) {
      end_session(session.get(), "");
    }
  }
}

// vgpud is asked for each: it knows what is so now.
void Gate::question_asked(const Sender& from) {
  if (!asks_.take(from.key, monotonic_ms()) || questions_.size() >= kPendingMax) {
    refuse(from, protocol::kCudaSystemNotReady, "too many questions; try again");
    return;
  }
  Result<UniqueFd> vgpud = protocol::connect_unix(options_.vgpud_path, 0);
  if (!vgpud.ok() || !protocol::send_message(vgpud->get(), protocol::InfoRequest{}).ok()) {
    refuse(from, protocol::kCudaSystemNotReady, "the server is restarting");
    return;
  }
  auto question = std::make_unique<Question>();
  question->vgpud = std::move(vgpud).value();
  question->routing = from.routing;
  question->tenant = from.tenant;
  question->deadline_ms = patience_.ms() + kQuestionMs;
  questions_.push_back(std::move(question));
}

void Gate::question_answered(Question* question) {
  Result<protocol::ReceivedMessage> received = protocol::receive_message(question->vgpud.get(), 0);
  if (!received.ok() && received.status().code() == StatusCode::kTimedOut) return;
  question->vgpud.reset();
  auto* info = received.ok() ? std::get_if<protocol::InfoReply>(&received->message) : nullptr;
  if (info == nullptr) {
    answer(question->routing,
           protocol::Refusal{protocol::kCudaSystemNotReady, "the server gave no answer"});
    return;
  }
  // Of guests a tenant sees its own, and of the host what it needs.
  info->driver_path.clear();
  info->driver_reason.clear();
  std::erase_if(info->guests, [&](const auto& guest) { return guest.tenant != question->tenant; });
  answer(question->routing, std::move(*info));
}

void Gate::answer(const Frame& routing, const protocol::Message& message) {
  const std::vector<uint8_t> bytes = protocol::encode_message(message);
  const std::span<const uint8_t> frames[] = {routing, bytes};
  // Who is gone, or reads nothing, goes without: a guest then hears nothing and gives up.
  (void)router_.send(frames);
}

void Gate::refuse(const Sender& from, int32_t cuda_error, const std::string& why) {
  if (strange_line()) {
    VGPU_LOG_WARN("refused %s (%s): %s", from.tenant.empty() ? "a key" : from.tenant.c_str(),
                  from.address.c_str(), why.c_str());
  }
  answer(from.routing, protocol::Refusal{cuda_error, why});
}

}  // namespace vgpu::net
