// The gate's life and its one loop.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/gate.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "protocol/transport/control_socket.h"

namespace vgpu::net {
namespace {

constexpr int kMindMs = 1000;     // keys, signs of life, memory
constexpr int kMindLostMs = 100;  // while a guest's connection is gone
constexpr int kListenAgainMs = 50;

bool ready(const zmq_pollitem_t& item) { return (item.revents & (ZMQ_POLLIN | ZMQ_POLLERR)) != 0; }

}  // namespace

Gate::Gate(GateOptions options)
    : options_(std::move(options)),
      authorized_(options_.authorized_path),
      session_users_(options_.session_users),
      patience_(monotonic_ms()) {
  session_users_.keep_living();  // of an earlier gate's guests, who go on
}

Gate::~Gate() = default;

Status Gate::open() {
  Result<KeyPair> key = read_key_file(options_.key_path);
  if (!key.ok()) return key.status();
  key_ = std::move(key).value();
  char derived[protocol::kKeyBytes + 1] = {};
  if (zmq_curve_public(derived, key_.secret_key.c_str()) != 0 || key_.public_key != derived) {
    return Status(StatusCode::kInvalidArgument,
                  options_.key_path + ": its halves are not of one key");
  }
  (void)authorized_.refresh();
  std::strncpy(report_.public_key, key_.public_key.c_str(), sizeof(report_.public_key) - 1);
  listen_until_ms_ = monotonic_ms() + kBindMs;
  try_listen();
  tell_vgpud();
  return ok_status();
}

int Gate::run() {
  while (!(alone_ && sessions_.empty()) && exit_code_ == 0) run_once(-1);
  (void)zmq_poll(nullptr, 0, kGoodbyeMs);  // for the last words to leave
  return exit_code_;
}

// Sockets, vgpud, then two descriptors of each session, then one of each question.
Gate::Polled Gate::what_to_poll() {
  Polled polled;
  const auto add_socket = [&](const ZmqSocket& socket) {
    polled.items.push_back({socket.get(), 0, ZMQ_POLLIN, 0});
  };
  // A descriptor below 0 counts as none.
  const auto add = [&](int fd) { polled.items.push_back({nullptr, fd, ZMQ_POLLIN, 0}); };
  if (listener_) {
    add_socket(keys_door_);
    add_socket(monitor_);
    add_socket(router_);
  }
  if (!alone_) add(options_.control);
  for (const auto& session : sessions_) {
    polled.sessions.push_back(session.get());
    add(session->process.get());
    add(session->control.get());
  }
  for (const auto& question : questions_) {
    polled.questions.push_back(question.get());
    add(question->vgpud.get());
  }
  return polled;
}

int Gate::poll_timeout(int timeout_ms) const {
  // Nobody is there: nothing can become due.
  const bool idle = sessions_.empty() && questions_.empty() && connections_.empty();
  const bool lost = std::any_of(sessions_.begin(), sessions_.end(), [](const auto& session) {
    return session->lost_ms != 0 && !session->ended;
  });
  const int limit = !listener_              ? kListenAgainMs
                    : lost                  ? kMindLostMs
                    : idle && told_ms_ == 0 ? -1
                                            : kMindMs;
  if (timeout_ms < 0) return limit;
  return limit < 0 ? timeout_ms : std::min(limit, timeout_ms);
}

void Gate::run_once(int timeout_ms) {
  Polled polled = what_to_poll();
  const int ready_items = zmq_poll(polled.items.data(), static_cast<int>(polled.items.size()),
                                   poll_timeout(timeout_ms));
  patience_.look(monotonic_ms());
  if (ready_items > 0) {
    size_t at = 0;
    if (listener_) {
      if (ready(polled.items[at++])) check_key();
      // Before messages: a descriptor that is used again is known to have been closed.
      if (ready(polled.items[at++])) watch_connections();
      if (ready(polled.items[at++])) take_messages();
    }
    if (!alone_ && ready(polled.items[at++])) vgpud_spoke();
    for (Session* session : polled.sessions) {
      // What it has said, before it is buried.
      const bool ended = ready(polled.items[at++]);
      if (ready(polled.items[at++]) || ended) session_spoke(session);
      if (ended) session_ended(session);
    }
    for (Question* question : polled.questions) {
      if (ready(polled.items[at++])) question_answered(question);
    }
  }
  std::erase_if(sessions_, [](const auto& session) { return session->pid == 0; });
  std::erase_if(questions_, [](const auto& question) { return !question->vgpud.valid(); });
  mind_door();
  if (const uint64_t now = monotonic_ms(); now - minded_ms_ >= kMindLostMs) {
    minded_ms_ = now;
    mind_keys();
    mind_sessions();
  }
  tell_vgpud();
}

// It says nothing; the socket only tells that it is there.
void Gate::vgpud_spoke() {
  const auto frame = protocol::receive_frame(options_.control, 0);
  if (!frame.ok() && frame.status().code() == StatusCode::kTimedOut) return;
  alone_ = true;
  // Whoever comes next takes the address; guests that are here go on.
  VGPU_LOG_INFO("vgpud is gone; %zu guests go on", sessions_.size());
  const Status given = listener_ ? listener_->give_up() : ok_status();
  if (!given.ok()) VGPU_LOG_ERROR("the address is still ours: %s", given.to_string().c_str());
}

void Gate::tell_vgpud() {
  if (alone_ || !listener_) return;
  report_.guests = static_cast<uint32_t>(sessions_.size());
  report_.connections = static_cast<uint32_t>(connections_.size());
  std::memset(report_.endpoint, 0, sizeof(report_.endpoint));
  std::strncpy(report_.endpoint, listener_->endpoint().c_str(), sizeof(report_.endpoint) - 1);
  const uint64_t now = monotonic_ms();
  const bool first = told_.endpoint[0] == '\0';
  const bool changed = std::memcmp(&report_, &told_, sizeof(report_)) != 0;
  if (!changed) {
    told_ms_ = 0;
    return;
  }
  if (!first && told_ms_ != 0 && now - told_ms_ < kMindMs) return;
  told_ms_ = now;
  const auto* bytes = reinterpret_cast<const uint8_t*>(&report_);
  if (protocol::send_frame(options_.control, {bytes, sizeof(report_)}, {}, 0).ok()) told_ = report_;
}

bool Gate::strange_line() {
  if (!strange_lines_.take(monotonic_ms())) {
    ++strange_hidden_;
    return false;
  }
  if (strange_hidden_ != 0) {
    VGPU_LOG_WARN("%llu more lines about refused connections were not written",
                  static_cast<unsigned long long>(strange_hidden_));
    strange_hidden_ = 0;
  }
  return true;
}

}  // namespace vgpu::net
