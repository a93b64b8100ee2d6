// Programs on one side, mail on the other.
// SPDX-License-Identifier: Apache-2.0
#include "vm/agent.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "base/log.h"
#include "protocol/session/handshake.h"
#include "protocol/transport/connect.h"
#include "protocol/transport/control_socket.h"

namespace vgpu::vm {

using protocol::BellKind;
using protocol::MailKind;

namespace {

// How often the mail is looked at where no interrupt tells: while programs wait for an answer and a
// while after, and then.
constexpr int kLookMsActive = 1;
constexpr int kLookMsIdle = 50;
constexpr int64_t kActiveNs = 1'000'000'000;
// A host that has just been called on answers within that; programs that come meanwhile wait.
constexpr int64_t kPatienceNs = 2'000'000'000;
constexpr int64_t kSilentNs = 5'000'000'000;  // a program that says nothing is sent away
constexpr int kSendTimeoutMs = 100;           // to a program that does not read: its socket is full

uint64_t new_epoch() {
  uint64_t epoch = 0;
  (void)!::getrandom(&epoch, sizeof(epoch), 0);
  return epoch | 1;
}

}  // namespace

Result<std::unique_ptr<Agent>> Agent::create(AgentOptions options) {
  std::unique_ptr<Agent> agent(new Agent(std::move(options)));
  VGPU_RETURN_IF_ERROR(agent->open());
  return agent;
}

Status Agent::open() {
  Result<RegionFile> region = open_region(options_.region);
  if (!region.ok()) return region.status();
  region_ = std::move(region).value();
  if (options_.interrupts) {
    Result<std::unique_ptr<Interrupt>> interrupt = Interrupt::take(region_.device);
    if (!interrupt.ok()) return interrupt.status();
    interrupt_ = std::move(interrupt).value();
  }
  if (region_.bytes < protocol::kRegionControlBytes)
    return Status(StatusCode::kMalformed, "the region is too small to be vGPU's");
  Result<Mapping> memory = Mapping::map_shared(region_.memory.get(), protocol::kRegionControlBytes);
  if (!memory.ok()) return memory.status();
  memory_ = std::move(memory).value();
  if (region_.registers.valid()) {
    Result<Mapping> registers = Mapping::map_shared(region_.registers.get(), protocol::kPageBytes);
    if (!registers.ok()) return registers.status();
    registers_ = std::move(registers).value();
  }
  const protocol::RegionIdentity& identity = header()->identity;
  // acquire: partner is the host's release.
  if (identity.magic.load(std::memory_order_acquire) != protocol::kRegionMagic)
    return Status(StatusCode::kMalformed, "the device's memory is not one of vgpu-vm's");
  if (identity.version != protocol::kRegionVersion)
    return Status(StatusCode::kMismatch, "vgpu-vm on the host is of another version");
  mail_ = std::make_unique<protocol::Mailbox>(memory_.data(), /*host=*/false);
  Result<UniqueFd> listener = protocol::listen_unix(options_.listen, options_.socket_mode);
  if (!listener.ok()) return listener.status();
  listener_ = std::move(listener).value();
  establish();
  return ok_status();
}

protocol::RegionHeader* Agent::header() const {
  return reinterpret_cast<protocol::RegionHeader*>(memory_.data());
}

bool Agent::established() const {
  // acquire: partner is Host::take_up, after which the host's mailbox is empty.
  return header()->host.answer.load(std::memory_order_acquire) == epoch_;
}

void Agent::establish() {
  mail_->reset();
  epoch_ = new_epoch();
  was_established_ = false;
  active_until_ns_ = patient_until_ns_ = static_cast<int64_t>(monotonic_ns()) + kPatienceNs;
  header()->guest.takes_interrupts.store(interrupt_ != nullptr, std::memory_order_relaxed);
  // release: partner is Host::look_at_guest.
  header()->guest.epoch.store(epoch_, std::memory_order_release);
  ring_host();
}

int Agent::wait_ms(int timeout_ms) const {
  int most = static_cast<int>(protocol::kBeatNs / 1'000'000);
  if (interrupt_ == nullptr || !was_established_)
    most = static_cast<int64_t>(monotonic_ns()) < active_until_ns_ ? kLookMsActive : kLookMsIdle;
  return timeout_ms < 0 ? most : std::min(most, timeout_ms);
}

void Agent::run_once(int timeout_ms) {
  // Two entries for each client, then the listener and the interrupt; negative ones are skipped.
  std::vector<pollfd> polled;
  for (const Client& client : clients_) {
    const bool watched = client.socket.valid() && !client.gone;
    const short event = client.spoke ? POLLRDHUP : POLLIN | POLLRDHUP;  // NOLINT
    polled.push_back({watched ? client.socket.get() : -1, event, 0});
    polled.push_back({watched ? client.process.get() : -1, POLLIN, 0});
  }
  polled.push_back({accepts() ? listener_.get() : -1, POLLIN, 0});
  polled.push_back({interrupt_ == nullptr ? -1 : interrupt_->event(), POLLIN, 0});
  if (::poll(polled.data(), polled.size(), wait_ms(timeout_ms)) < 0) return;
  if (polled.back().revents != 0) interrupt_->rang();
  for (uint32_t i = 0; i < clients_.size(); ++i) look_at(i, polled[2 * i], polled[2 * i + 1]);
  look_at_host();
  if (polled[2 * clients_.size()].revents != 0) accept_all();
  if (!established()) return;
  read_mail();
  send_byes();
}

// --- the host's program: there, gone -------------------------------------------------------------

void Agent::look_at_host() {
  const bool lives = beats_.go_on(&header()->guest, header()->host);
  const bool now = established();
  if (was_established_ && (!lives || !now)) {
    VGPU_LOG_WARN("the host's program is gone, or has given this machine up");
    drop_clients();
    establish();
  } else if (now && !was_established_) {
    VGPU_LOG_INFO("the host's program is there");
    was_established_ = true;
    beats_.forgive();
  }
}

// Their sockets close, by which they learn that the server is gone.
void Agent::drop_clients() {
  for (Client& client : clients_) client = Client();
}

// --- programs ------------------------------------------------------------------------------------

bool Agent::accepts() const {
  return was_established_ || static_cast<int64_t>(monotonic_ns()) > patient_until_ns_;
}

void Agent::accept_all() {
  while (true) {
    Result<UniqueFd> socket = protocol::accept_unix(listener_.get());
    if (!socket.ok()) return;
    const auto free = std::find_if(clients_.begin(), clients_.end(),
                                   [](const Client& client) { return !client.in_use(); });
    if (free == clients_.end() || !was_established_) {
      const Status why(StatusCode::kUnavailable,
                       was_established_ ? "too many programs of this virtual machine use vGPU"
                                        : "the host of this virtual machine does not answer");
      (void)protocol::send_message(socket->get(), protocol::refusal_for(why));
      continue;
    }
    *free = Client();
    free->socket = std::move(socket).value();
    free->since_ns = static_cast<int64_t>(monotonic_ns());
    Result<protocol::PeerCredentials> peer = protocol::peer_credentials(free->socket.get());
    if (!peer.ok()) continue;
    Result<UniqueFd> process = protocol::open_pidfd(peer->pid);
    if (process.ok()) free->process = std::move(process).value();
  }
}

// A forked child may hold the socket open, so the process is watched as well.
void Agent::look_at(uint32_t number, const pollfd& socket, const pollfd& process) {
  Client& client = clients_[number];
  if (socket.fd < 0 || !client.socket.valid()) return;
  if ((socket.revents & POLLIN) != 0 && !client.spoke) heard(number);
  const bool hung_up = (socket.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
  const bool silent =
      !client.spoke && static_cast<int64_t>(monotonic_ns()) - client.since_ns > kSilentNs;
  if (!hung_up && process.revents == 0 && !silent) return;
  client.gone = true;
  client.socket.reset();
  client.process.reset();
}

void Agent::heard(uint32_t number) {
  Client& client = clients_[number];
  Result<protocol::ControlFrame> frame = protocol::receive_frame(client.socket.get(), 0);
  if (!frame.ok()) {
    if (frame.status().code() != StatusCode::kTimedOut) client.socket.reset();
    return;
  }
  if (!established() || !mail_->send(MailKind::kSay, number, frame->bytes).ok()) {
    client.socket.reset();
    return;
  }
  client.spoke = true;
  active_until_ns_ = static_cast<int64_t>(monotonic_ns()) + kActiveNs;
  ring_host();
}

// --- mail ----------------------------------------------------------------------------------------

void Agent::read_mail() {
  protocol::Mail mail;
  while (true) {
    const protocol::MailResult result = mail_->receive(&mail);
    if (result == protocol::MailResult::kEmpty) return;
    if (result == protocol::MailResult::kMalformed) {
      VGPU_LOG_WARN("the host's mail is malformed");
      drop_clients();
      establish();
      return;
    }
    Client& client = clients_[mail.connection];
    if (mail.kind == MailKind::kSay) {
      said(mail.connection, mail.bytes);
      continue;
    }
    client.host_done = client.spoke;
    // The program learns of it; the piece of the region is its own until it has closed its end.
    if (client.socket.valid()) (void)::shutdown(client.socket.get(), SHUT_WR);
  }
}

void Agent::said(uint32_t number, const std::vector<uint8_t>& bytes) {
  Client& client = clients_[number];
  if (!client.socket.valid()) return;
  int descriptors[3];
  size_t count = 0;
  Result<protocol::Message> message = protocol::decode_message(bytes);
  if (!message.ok()) return;
  if (const auto* reply = std::get_if<protocol::HelloReply>(&*message); reply != nullptr) {
    descriptors[count++] = region_.memory.get();
    if (reply->bell == BellKind::kHostRung || reply->bell == BellKind::kRung)
      descriptors[count++] = region_.registers.get();
    if (reply->bell == BellKind::kRung && interrupt_ != nullptr)
      descriptors[count++] = interrupt_->page();
  }
  const Status sent =
      protocol::send_frame(client.socket.get(), bytes, {descriptors, count}, kSendTimeoutMs);
  if (!sent.ok()) VGPU_LOG_WARN("a program: %s", sent.to_string().c_str());
}

void Agent::send_byes() {
  for (uint32_t i = 0; i < clients_.size(); ++i) {
    Client& client = clients_[i];
    if (client.spoke && client.gone && !client.bye_sent) {
      if (!mail_->send(MailKind::kBye, i).ok()) return;
      client.bye_sent = true;
      active_until_ns_ = static_cast<int64_t>(monotonic_ns()) + kActiveNs;
      ring_host();
    }
    if (client.gone && (!client.spoke || (client.bye_sent && client.host_done))) client = Client();
  }
}

void Agent::ring_host() const {
  if (registers_.data() == nullptr) return;
  auto* const doorbell =
      reinterpret_cast<volatile uint32_t*>(registers_.data() + protocol::kDoorbellOffset);
  protocol::Bell::of_guest(nullptr, doorbell, protocol::kHostPeer << 16).wake_peer(nullptr);
}

}  // namespace vgpu::vm
