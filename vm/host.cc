// Mail in, control messages to vgpud; and back.
// SPDX-License-Identifier: Apache-2.0
#include "vm/host.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "protocol/session/handshake.h"
#include "protocol/transport/control_socket.h"

namespace vgpu::vm {

using protocol::BellKind;
using protocol::MailKind;

namespace {

// How often the mail is looked at where nothing rings: for a while after there was some, and then.
constexpr int kLookMsActive = 1;
constexpr int kLookMsIdle = 20;
constexpr int64_t kActiveNs = 1'000'000'000;

}  // namespace

Result<std::unique_ptr<Host>> Host::create(HostOptions options) {
  std::unique_ptr<Host> host(new Host(std::move(options)));
  VGPU_RETURN_IF_ERROR(host->open());
  return host;
}

Status Host::open() {
  Result<protocol::RegionCut> cut = protocol::RegionCut::of(options_.region_bytes, options_.pieces);
  if (!cut.ok()) return cut.status();
  if ((options_.region_bytes & (options_.region_bytes - 1)) != 0)
    return Status(StatusCode::kInvalidArgument, "a region's size must be a power of two");
  cut_ = *cut;
  Result<UniqueFd> region = protocol::make_sealed_memory(cut_.region_bytes, "vgpu-vm");
  if (!region.ok()) return region.status();
  region_ = std::move(region).value();
  Result<Mapping> memory = Mapping::map_shared(region_.get(), cut_.region_bytes);
  if (!memory.ok()) return memory.status();
  memory_ = std::move(memory).value();
  mail_ = std::make_unique<protocol::Mailbox>(memory_.data(), /*host=*/true);
  protocol::RegionIdentity& identity = header()->identity;
  identity.version = protocol::kRegionVersion;
  identity.region_bytes = cut_.region_bytes;
  identity.pieces = cut_.pieces;
  identity.piece_bytes = cut_.piece_bytes;
  header()->host.epoch.store(monotonic_ns() | 1, std::memory_order_relaxed);
  // release: partner is the agent's acquire.
  identity.magic.store(protocol::kRegionMagic, std::memory_order_release);
  if (options_.qemu.empty()) return ok_status();
  Result<std::unique_ptr<DoorbellServer>> doorbell =
      DoorbellServer::listen(options_.qemu, region_.get());
  if (!doorbell.ok()) return doorbell.status();
  doorbell_ = std::move(doorbell).value();
  return ok_status();
}

protocol::RegionHeader* Host::header() const {
  return reinterpret_cast<protocol::RegionHeader*>(memory_.data());
}

BellKind Host::bell() const {
  if (doorbell_ == nullptr || !doorbell_->connected()) return BellKind::kPolled;
  const bool both = header()->guest.takes_interrupts.load(std::memory_order_relaxed) != 0;
  return both ? BellKind::kRung : BellKind::kHostRung;
}

int Host::wait_ms(int timeout_ms) const {
  int most = static_cast<int>(protocol::kBeatNs / 1'000'000);
  if (bell() == BellKind::kPolled)
    most = static_cast<int64_t>(monotonic_ns()) < active_until_ns_ ? kLookMsActive : kLookMsIdle;
  return timeout_ms < 0 ? most : std::min(most, timeout_ms);
}

void Host::run_once(int timeout_ms) {
  std::vector<pollfd> polled;
  std::vector<uint32_t> numbers;
  const auto add = [&](const Connection& connection, uint32_t number) {
    if (!connection.server.valid()) return;
    polled.push_back({connection.server.get(), POLLIN, 0});
    numbers.push_back(number);
  };
  for (uint32_t i = 0; i < connections_.size(); ++i) add(connections_[i], i);
  const auto first_draining = static_cast<uint32_t>(connections_.size());
  for (uint32_t i = 0; i < draining_.size(); ++i) add(draining_[i], first_draining + i);
  if (doorbell_ != nullptr) doorbell_->add_to(&polled);
  if (::poll(polled.data(), polled.size(), wait_ms(timeout_ms)) < 0) return;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint32_t number = numbers[i];
    if (polled[i].revents == 0) continue;
    heard(number,
          number < first_draining ? &connections_[number] : &draining_[number - first_draining]);
  }
  std::erase_if(draining_, [](const Connection& connection) { return !connection.opened; });
  if (doorbell_ != nullptr) {
    const DoorbellServer::Seen seen = doorbell_->look();
    if (seen == DoorbellServer::Seen::kMachineGone) drop_guest("the machine has ended");
    if (seen == DoorbellServer::Seen::kRing) relay();
    header()->host.takes_interrupts.store(doorbell_->connected(), std::memory_order_relaxed);
  }
  look_at_guest();
  read_mail();
  send_byes();
}

// --- the agent: there, gone, another one ---------------------------------------------------------

void Host::look_at_guest() {
  protocol::RegionHeader* const region = header();
  // acquire: partner is the agent's release, after which its mailbox is empty.
  const uint64_t epoch = region->guest.epoch.load(std::memory_order_acquire);
  if (epoch != 0 && epoch != epoch_ && epoch != dropped_epoch_) take_up(epoch);
  const bool lives = beats_.go_on(&region->host, region->guest);
  if (epoch_ != 0 && !lives) drop_guest("the machine's agent is silent");
}

void Host::take_up(uint64_t epoch) {
  if (epoch_ != 0) drop_guest("the machine's agent has started anew");
  VGPU_LOG_INFO("%s: the machine's agent is there", options_.name.c_str());
  mail_->reset();
  epoch_ = epoch;
  beats_.forgive();
  header()->host.answer.store(epoch, std::memory_order_release);  // partner: Agent::established
}

void Host::drop_guest(const char* why) {
  if (epoch_ == 0) return;
  VGPU_LOG_INFO("%s: %s; its guests end", options_.name.c_str(), why);
  header()->host.answer.store(0, std::memory_order_release);
  dropped_epoch_ = std::exchange(epoch_, 0);
  for (Connection& connection : connections_) {
    if (!connection.opened) continue;
    connection.guest_done = connection.bye_sent = true;
    // The worker ends then, and only its end gives the piece back.
    if (connection.server.valid()) (void)::shutdown(connection.server.get(), SHUT_WR);
    if (!connection.over()) draining_.push_back(std::exchange(connection, Connection()));
    free_if_over(&connection);
  }
}

// --- mail ----------------------------------------------------------------------------------------

void Host::read_mail() {
  protocol::Mail mail;
  while (epoch_ != 0) {
    const protocol::MailResult result = mail_->receive(&mail);
    if (result == protocol::MailResult::kEmpty) return;
    if (result == protocol::MailResult::kMalformed) {
      drop_guest("its mail is malformed");
      return;
    }
    active_until_ns_ = static_cast<int64_t>(monotonic_ns()) + kActiveNs;
    if (mail.kind == MailKind::kSay) {
      said(mail.connection, mail.bytes);
      continue;
    }
    Connection& connection = connections_[mail.connection];
    connection.guest_done = connection.opened;
    if (connection.server.valid()) (void)::shutdown(connection.server.get(), SHUT_WR);
    free_if_over(&connection);
  }
}

void Host::said(uint32_t number, const std::vector<uint8_t>& bytes) {
  Connection& connection = connections_[number];
  if (connection.opened) {  // a guest says one thing only
    if (connection.server.valid()) (void)::shutdown(connection.server.get(), SHUT_WR);
    return;
  }
  connection.opened = true;
  Result<protocol::Message> message = protocol::decode_message(bytes);
  Status status = message.ok() ? ok_status() : message.status();
  if (status.ok()) status = forward(&connection, std::move(message).value());
  if (!status.ok()) refuse(number, status);
}

// Only what a guest may say goes on: vgpud would take the rest as ours.
Status Host::forward(Connection* connection, protocol::Message message) {
  auto* hello = std::get_if<protocol::Hello>(&message);
  connection->asks_info = std::holds_alternative<protocol::InfoRequest>(message);
  if (hello == nullptr && !connection->asks_info)
    return Status(StatusCode::kPermissionDenied,
                  std::string("a virtual machine may not say ") + protocol::message_name(message));
  if (hello != nullptr) {
    hello->flags |= protocol::kHelloRegion;
    hello->label = hello->label.empty() ? options_.name : options_.name + "/" + hello->label;
  }
  // Before vgpud hears of it: a worker is only started for who has a place.
  if (hello != nullptr) VGPU_RETURN_IF_ERROR(take_piece(connection));
  Result<UniqueFd> server = protocol::connect_unix(options_.server, 0);
  if (!server.ok()) return server.status();
  connection->server = std::move(server).value();
  VGPU_RETURN_IF_ERROR(protocol::send_message(connection->server.get(), message));
  return hello == nullptr ? ok_status() : offer_piece(connection);
}

bool Host::holds(uint32_t piece) const {
  const auto has = [&](const Connection& connection) { return connection.piece == piece; };
  return std::any_of(connections_.begin(), connections_.end(), has) ||
         std::any_of(draining_.begin(), draining_.end(), has);
}

uint32_t Host::guests() const {
  uint32_t count = 0;
  for (uint32_t piece = 0; piece < cut_.pieces; ++piece) count += holds(piece);
  return count;
}

Status Host::take_piece(Connection* connection) {
  uint32_t piece = 0;
  while (piece < cut_.pieces && holds(piece)) ++piece;
  if (piece == cut_.pieces)
    return Status(StatusCode::kResourceExhausted,
                  "all pieces of the machine's region are in use: a larger one, or more pieces");
  connection->piece = piece;
  return ok_status();
}

Status Host::offer_piece(Connection* connection) {
  protocol::RegionOffer offer;
  offer.region.reset(::fcntl(region_.get(), F_DUPFD_CLOEXEC, 3));
  offer.offset = cut_.offset_of(*connection->piece);
  offer.bytes = cut_.piece_bytes;
  offer.bell = bell();
  if (offer.bell == BellKind::kRung)
    offer.event.reset(::fcntl(doorbell_->to_guest(), F_DUPFD_CLOEXEC, 3));
  return protocol::send_region_offer(connection->server.get(), offer);
}

// --- vgpud and workers ---------------------------------------------------------------------------

void Host::heard(uint32_t number, Connection* connection) {
  Result<protocol::ControlFrame> frame = protocol::receive_frame(connection->server.get(), 0);
  if (!frame.ok() && frame.status().code() == StatusCode::kTimedOut) return;
  Status status = frame.ok() ? ok_status() : frame.status();
  if (status.ok() && !connection->guest_done) {
    Result<protocol::Message> message = protocol::decode_message(frame->bytes);
    status = message.ok() ? take_answer(connection, &*message) : message.status();
    if (status.ok())
      status = mail_->send(MailKind::kSay, number, protocol::encode_message(*message));
    if (status.ok()) ring_guest();
    if (status.ok() && !connection->asks_info) return;
  } else if (status.ok()) {
    return;  // an answer for nobody; the end is still to come
  }
  if (status.code() != StatusCode::kUnavailable && !status.ok())
    VGPU_LOG_WARN("%s: %s", options_.name.c_str(), status.to_string().c_str());
  const bool ended = status.code() == StatusCode::kUnavailable || connection->asks_info;
  if (!ended) {  // a worker that says nonsense is told to end, and then its end is awaited
    (void)::shutdown(connection->server.get(), SHUT_WR);
    return;
  }
  connection->server.reset();
  sessions_.erase(connection->session);
  free_if_over(connection);
}

// What the machine hears of vgpud: of other guests than its own it hears nothing.
Status Host::take_answer(Connection* connection, protocol::Message* message) {
  if (auto* reply = std::get_if<protocol::HelloReply>(message); reply != nullptr) {
    connection->session = reply->session;
    sessions_.insert(reply->session);
    VGPU_LOG_INFO("%s: session %llu", options_.name.c_str(),
                  static_cast<unsigned long long>(reply->session));  // NOLINT(google-runtime-int)
    return ok_status();
  }
  if (auto* info = std::get_if<protocol::InfoReply>(message); info != nullptr) {
    std::erase_if(info->guests,
                  [&](const auto& guest) { return sessions_.count(guest.session) == 0; });
    info->driver_path.clear();
    info->driver_reason.clear();
    info->networks.clear();
    return ok_status();
  }
  if (std::holds_alternative<protocol::Refusal>(*message)) return ok_status();
  return Status(StatusCode::kMalformed,
                std::string("unexpected answer ") + protocol::message_name(*message));
}

void Host::refuse(uint32_t number, const Status& why) {
  VGPU_LOG_WARN("%s: guest refused: %s", options_.name.c_str(), why.to_string().c_str());
  const std::vector<uint8_t> refusal = protocol::encode_message(protocol::refusal_for(why));
  Connection& connection = connections_[number];
  if (mail_->send(MailKind::kSay, number, refusal).ok()) ring_guest();
  connection.server.reset();
}

void Host::send_byes() {
  for (uint32_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = connections_[i];
    if (!connection.opened || connection.server.valid() || connection.bye_sent) continue;
    if (!mail_->send(MailKind::kBye, i).ok()) return;
    connection.bye_sent = true;
    ring_guest();
    free_if_over(&connection);
  }
}

void Host::free_if_over(Connection* connection) {
  if (!connection->opened || !connection->over()) return;
  if (connection->piece) {  // its pages go back to the host, and what they held is gone
    const auto offset = static_cast<off_t>(cut_.offset_of(*connection->piece));
    (void)::fallocate(region_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
                      static_cast<off_t>(cut_.piece_bytes));
  }
  *connection = Connection();
}

// --- bells ---------------------------------------------------------------------------------------

void Host::ring_guest() const {
  if (bell() != BellKind::kRung) return;
  protocol::Bell::of_worker(true, doorbell_->to_guest()).wake_peer(nullptr);
}

// The machine rings for one of its workers, and does not say for which: all that may sleep are
// woken. They look, and those that find nothing sleep again.
void Host::relay() {
  active_until_ns_ = static_cast<int64_t>(monotonic_ns()) + kActiveNs;
  for (const Connection& connection : connections_) {
    if (!connection.piece || !connection.server.valid()) continue;
    const protocol::ChannelView view(memory_.data() + cut_.offset_of(*connection.piece), {});
    futex_wake_all(&view.header()->consumer_sleep.sleeping);
    futex_wake_all(&view.host_calls()->worker_sleep.sleeping);
  }
}

}  // namespace vgpu::vm
