// The processes that stand for remote guests: started, heard, ended.
// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "net/control/gate.h"
#include "protocol/session/handshake.h"
#include "protocol/transport/control_socket.h"
#include "protocol/transport/spawn.h"

namespace vgpu::net {

Status Gate::start_session(const Sender& from, protocol::NetAttach attach) {
  const Status none(StatusCode::kUnavailable, "the server can start no session");
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return none;
  const UniqueFd for_session(ends[0]), for_vgpud(ends[1]);
  const uid_t user = session_users_.take();
  if (user == 0 && session_users_.any()) return none;  // never one as root
  std::vector<std::string> words = {"--session", "--data-host", options_.data_host, "--log-level",
                                    options_.log_level};
  if (user != 0) words.insert(words.end(), {"--user", std::to_string(user)});
  Result<protocol::Spawned> spawned = protocol::spawn(options_.program, words, {ends, 1});
  if (!spawned.ok()) {
    session_users_.give_back(user);
    VGPU_LOG_ERROR("cannot start a session: %s", spawned.status().to_string().c_str());
    return none;
  }
  auto session = std::make_unique<Session>();
  session->pid = spawned->pid;
  session->user = user;
  session->control = std::move(spawned->control);
  session->process = std::move(spawned->process);
  session->key = from.key;
  session->tenant = from.tenant;
  session->routing = from.routing;
  session->descriptor = from.descriptor;
  session->deadline_ms = patience_.ms() + kPendingMs;
  session->remote = from.address + " pid " + std::to_string(attach.hello.pid);
  if (attach.grace_ms == 0) attach.grace_ms = options_.grace_ms;
  attach.grace_ms = std::min(attach.grace_ms, options_.grace_ms);
  session->grace_ms = attach.grace_ms;
  // What the guest says of these is not asked.
  attach.hello.tenant = from.tenant;
  attach.hello.remote = session->remote;
  attach.hello.flags |= protocol::kHelloRemote;
  Status sent = hand_over(attach.hello, spawned->pid, for_vgpud.get());
  attach.hello.token.clear();  // only vgpud needs it
  if (sent.ok()) sent = protocol::send_message(session->control.get(), attach);
  if (!sent.ok()) {
    session->ended = true;  // what is told is the refusal
    (void)kill(session->pid, SIGKILL);
  }
  sessions_.push_back(std::move(session));
  return sent.ok() ? sent : none;
}

// vgpud believes what comes over this gate's own socket.
Status Gate::hand_over(const protocol::Hello& hello, pid_t pid, int connection) {
  protocol::GateGuest guest;
  guest.pid = pid;
  std::vector<uint8_t> frame(sizeof(guest));
  std::memcpy(frame.data(), &guest, sizeof(guest));
  const std::vector<uint8_t> bytes = protocol::encode_message(hello);
  frame.insert(frame.end(), bytes.begin(), bytes.end());
  return protocol::send_frame(options_.control, frame, {&connection, 1}, kHandOverMs);
}

// NetAttached or Refusal first, NetResumed at times, NetEnded last; all go to the guest.
void Gate::session_spoke(Session* session) {
  if (session->pid == 0) return;
  const Result<protocol::ControlFrame> frame = protocol::receive_frame(session->control.get(), 0);
  if (!frame.ok()) {
    // Its process descriptor tells its end.
    if (frame.status().code() != StatusCode::kTimedOut) session->control.reset();
    return;
  }
  const Result<protocol::Message> message = protocol::decode_message(frame->bytes);
  if (!message.ok()) {
    end_session(session, "its process is of another version");
    return;
  }
  if (const auto* attached = std::get_if<protocol::NetAttached>(&*message)) {
    session->number = attached->reply.session;
    session->heard_ms = patience_.ms();
    ++report_.attached;
    VGPU_LOG_INFO("guest %s of %s: session %llu", session->remote.c_str(), session->tenant.c_str(),
                  static_cast<unsigned long long>(session->number));
  } else if (std::get_if<protocol::NetResumed>(&*message) == nullptr) {
    // A refusal, or the end: either way it needs no other words.
    session->ended = true;
    report_.refused += session->number == 0;
  }
  const std::span<const uint8_t> frames[] = {session->routing, frame->bytes};
  (void)router_.send(frames);
}

void Gate::session_ended(Session* session) {
  if (session->pid == 0) return;
  (void)waitpid(session->pid, nullptr, 0);
  session_users_.give_back(session->user);
  if (!session->ended) end_session(session, "its process on the server has ended");
  if (session->number != 0) {
    VGPU_LOG_INFO("guest %s of %s: session %llu ended", session->remote.c_str(),
                  session->tenant.c_str(), static_cast<unsigned long long>(session->number));
  }
  session->pid = 0;
}

// Its process is ended at once; the worker behind it sees that and ends too. `why` is for the
// guest; empty: it knows.
void Gate::end_session(Session* session, const std::string& why) {
  if (session->ended) return;
  session->ended = true;
  (void)kill(session->pid, SIGKILL);
  if (why.empty()) return;
  VGPU_LOG_INFO("guest %s of %s: %s", session->remote.c_str(), session->tenant.c_str(),
                why.c_str());
  if (session->number == 0) {
    answer(session->routing, protocol::Refusal{protocol::kCudaSystemNotReady, why});
  } else {
    answer(session->routing, protocol::NetEnded{session->number, why});
  }
}

void Gate::connection_gone(int descriptor) {
  for (const auto& session : sessions_) {
    if (session->descriptor != descriptor) continue;
    session->descriptor = -1;
    if (session->number == 0) {
      end_session(session.get(), "");  // nobody waits for it any more
    } else {
      session->lost_ms = patience_.ms();
    }
  }
}

void Gate::mind_sessions() {
  const uint64_t now = patience_.ms();
  for (const auto& session : sessions_) {
    if (session->ended) continue;
    if (session->number == 0 && now > session->deadline_ms) {
      end_session(session.get(), "the session did not start in time");
    } else if (session->lost_ms != 0 && now - session->lost_ms > kLostMs) {
      end_session(session.get(), "its connection is gone");
    } else if (session->number != 0 && now - session->heard_ms > session->grace_ms) {
      end_session(session.get(), "it has not been heard for too long");
    }
  }
  for (const auto& question : questions_) {
    if (now > question->deadline_ms) question->vgpud.reset();
  }
  if (memory_has_grown() && !alone_) {
    VGPU_LOG_WARN("a connection holds too much memory: all are closed; guests come back");
    ++report_.malformed;
    monitor_.close();
    router_.close();
    memory_first_ = 0;
    for (const auto& session : sessions_) {
      session->descriptor = -1;
      session->lost_ms = now;
    }
    if (const Status opened = open_door(); !opened.ok()) {
      VGPU_LOG_ERROR("%s", opened.to_string().c_str());
      exit_code_ = 3;
    }
    (void)malloc_trim(0);
  }
}

void Gate::mind_keys() {
  keys_changed_ |= authorized_.refresh();
  if (!std::exchange(keys_changed_, false)) return;
  for (const auto& session : sessions_) {
    const std::string* tenant = authorized_.tenant_of(session->key);
    if (tenant == nullptr) {
      end_session(session.get(), "its key is not admitted any more");
    } else if (*tenant != session->tenant) {
      end_session(session.get(), "its key belongs to another tenant now");
    }
  }
}

}  // namespace vgpu::net
