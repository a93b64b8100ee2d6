// vgpud's callers: guests that attach, administrators that ask.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "api/visible_devices.h"
#include "base/clock.h"
#include "op.h"
#include "scheduler/dominant_share.h"
#include "server/attach.h"
#include "server/daemon.h"
#include "server/log.h"
#include "server/ownership.h"

namespace vgpu::server {
namespace {

GuestAsk ask_of(const protocol::Hello& hello) {
  GuestAsk ask;
  ask.memory_bytes = hello.memory_bytes;
  ask.weight = hello.weight;
  ask.cap_permille = hello.cap_permille;
  ask.priority = hello.priority;
  return ask;
}

}  // namespace

void Daemon::accept_all() {
  while (true) {
    Result<UniqueFd> connection = protocol::accept_unix(listener_.get());
    if (!connection.ok()) {
      if (connection.status().code() != StatusCode::kTimedOut) {
        log(Level::kWarn, "accept: %s", connection.status().to_string().c_str());
        // Whoever waits there would wake the loop again at once.
        loop_.remove(listener_.get());
        accept_again_ = true;
      }
      return;
    }
    if (unheard_.size() >= kUnheardMax) {
      const int oldest =
          std::min_element(unheard_.begin(), unheard_.end(), [](const auto& a, const auto& b) {
            return a.second.deadline_ms < b.second.deadline_ms;
          })->first;
      loop_.remove(oldest);
      unheard_.erase(oldest);
    }
    const int fd = connection->get();
    if (loop_.add(fd, [this, fd] { heard(fd); }).ok()) {
      unheard_[fd] = {std::move(connection).value(), monotonic_ms() + kHelloTimeoutMs};
    }
  }
}

void Daemon::listen_again() {
  accept_again_ = !loop_.add(listener_.get(), [this] { accept_all(); }).ok();
}

void Daemon::close_silent() {
  for (auto it = unheard_.begin(); it != unheard_.end();) {
    if (it->second.deadline_ms > monotonic_ms()) {
      ++it;
      continue;
    }
    loop_.remove(it->first);
    it = unheard_.erase(it);
  }
}

// The first message of a connection decides what it is.
void Daemon::heard(int fd) {
  loop_.remove(fd);
  UniqueFd connection = std::move(unheard_.at(fd).connection);
  unheard_.erase(fd);
  Result<protocol::ControlFrame> frame = protocol::receive_frame(fd, 0);
  if (!frame.ok()) return;
  if (const auto asked = protocol::decode_figures_request(frame->bytes); asked.ok()) {
    figures_asked(fd, *asked);
    return;
  }
  Result<protocol::Message> message = protocol::decode_message(frame->bytes);
  if (!message.ok()) {
    refuse(fd, message.status());
    return;
  }
  if (auto* hello = std::get_if<protocol::Hello>(&*message)) {
    hello->tenant.clear();  // only a gate knows it
    hello->remote.clear();
    const Result<protocol::PeerCredentials> peer = protocol::peer_credentials(fd);
    if (!peer.ok()) {
      refuse(fd, peer.status());
      return;
    }
    greet(std::move(connection), std::move(*hello), peer->pid, peer->uid);
  } else if (std::get_if<protocol::InfoRequest>(&*message) != nullptr) {
    (void)protocol::send_message(fd, info(fd));
  } else if (auto* stop = std::get_if<protocol::StopRequest>(&*message)) {
    stop_requested(fd, *stop);
  } else if (auto* listing = std::get_if<protocol::GuestsRequest>(&*message)) {
    (void)protocol::send_message(fd, guests_after(fd, listing->after));
  } else if (auto* change = std::get_if<protocol::SteerRequest>(&*message)) {
    steer(fd, *change);
  } else {
    refuse(fd, Status(StatusCode::kMalformed,
                      std::string("unexpected message ") + protocol::message_name(*message)));
  }
}

void Daemon::refuse(int connection, const Status& status) {
  ++refused_;
  log(Level::kWarn, "guest refused: %s", status.to_string().c_str());
  (void)protocol::send_message(connection, protocol::refusal_for(status));
}

void Daemon::decline(int connection, const Status& status) {
  log(Level::kWarn, "request refused: %s", status.to_string().c_str());
  (void)protocol::send_message(connection, protocol::refusal_for(status));
}

void Daemon::greet(UniqueFd connection, protocol::Hello hello, pid_t pid, uid_t uid) {
  if (Status ok = protocol::check_hello(hello, kWireHash, kServerVersion); !ok.ok()) {
    refuse(connection.get(), ok);
    return;
  }
  if (draining_) {
    refuse(connection.get(), draining_refusal());
    return;
  }
  const bool elsewhere = (hello.flags & (protocol::kHelloRemote | protocol::kHelloRegion)) != 0;
  const Result<GuestTerms> terms = terms_of(connection.get(), pid, uid, hello);
  if (!terms.ok()) {
    refuse(connection.get(), terms.status());
    return;
  }
  if (elsewhere && terms->mode == SharingMode::kPacked) {
    refuse(connection.get(), Status(StatusCode::kNotSupported,
                                    "guests of other machines and of virtual ones cannot be "
                                    "packed: profile " +
                                        terms->profile));
    return;
  }
  if (!room_in_queue(terms->tenant)) {
    refuse(connection.get(), Status(StatusCode::kUnavailable, "too many guests wait for a worker"));
    return;
  }
  hello.token.clear();
  queue_.push_back({std::move(connection), std::move(hello), pid, uid, *terms});
  serve_queue();
}

// One tenant's guests leave room for those of others.
bool Daemon::room_in_queue(const std::string& tenant) {
  drop_gone();
  const auto of_tenant = std::count_if(queue_.begin(), queue_.end(), [&](const QueuedGuest& guest) {
    return guest.terms.tenant == tenant;
  });
  const size_t most = options_.policy.divides() ? kQueuedGuestsMax / 4 : kQueuedGuestsMax;
  return queue_.size() < kQueuedGuestsMax && static_cast<size_t>(of_tenant) < most;
}

// Those who have hung up while they waited take no worker and no memory.
void Daemon::drop_gone() {
  std::erase_if(queue_, [](const QueuedGuest& guest) {
    pollfd end{guest.connection.get(), POLLRDHUP, 0};
    return poll(&end, 1, 0) > 0 && (end.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  });
}

Status Daemon::draining_refusal() {
  return Status(StatusCode::kUnavailable, "the server takes no new guests: it is draining");
}

// Whose guest it is, and what it may have.
Result<GuestTerms> Daemon::terms_of(int connection, pid_t pid, uid_t uid,
                                    const protocol::Hello& hello) const {
  if (uid == kRemoteUser) return terms_of_remote(hello);
  PeerIdentity who;
  who.uid = uid;
  who.gids = protocol::peer_groups(connection, {pid, uid, static_cast<gid_t>(-1)});
  who.trusted = trusted(uid, pid);
  const Result<const Tenant*> tenant = options_.policy.identify(who, hello.token);
  if (!tenant.ok()) return tenant.status();
  return options_.policy.terms(**tenant, hello.profile, ask_of(hello), who.trusted);
}

// The gate says the tenant that the guest's key is for. Where the configuration has none, that name
// still keeps guests of different keys apart.
Result<GuestTerms> Daemon::terms_of_remote(const protocol::Hello& hello) const {
  if (options_.policy.divides()) {
    const Tenant* tenant = options_.policy.tenant(hello.tenant);
    if (tenant == nullptr)
      return Status(StatusCode::kPermissionDenied,
                    "no tenant '" + hello.tenant + "' is configured");
    return options_.policy.terms(*tenant, hello.profile, ask_of(hello), false);
  }
  PeerIdentity who;
  who.uid = kRemoteUser;
  const Result<const Tenant*> everybody = options_.policy.identify(who, "");
  if (!everybody.ok()) return everybody.status();
  Result<GuestTerms> terms =
      options_.policy.terms(**everybody, hello.profile, ask_of(hello), false);
  if (terms.ok()) terms->tenant = hello.tenant;
  return terms;
}

// Of those that can be served now the guest whose tenant has least of what there is; of equals the
// one that has waited longest.
std::optional<Daemon::QueuedGuest> Daemon::next_guest() {
  const bool worker_waits = waiting_worker() != nullptr;
  size_t best = queue_.size();
  for (size_t i = 0; i < queue_.size(); ++i) {
    if (!can_serve(queue_[i], worker_waits)) continue;
    if (best == queue_.size() ||
        dominant_share_of(queue_[i].terms.tenant) < dominant_share_of(queue_[best].terms.tenant)) {
      best = i;
    }
    if (!options_.policy.divides()) break;
  }
  if (best == queue_.size()) return std::nullopt;
  QueuedGuest guest = std::move(queue_[best]);
  queue_.erase(queue_.begin() + static_cast<ptrdiff_t>(best));
  return guest;
}

double Daemon::dominant_share_of(const std::string& tenant) const {
  scheduler::ResourceUse memory{ledgers_.held(tenant).bytes, 0}, weight;
  for (uint32_t i = 0; i < identities_.size(); ++i) memory.capacity += ledgers_.of(i).capacity();
  for (const auto& [pid, worker] : workers_) {
    if (worker->session == 0) continue;
    weight.capacity += worker->share.weight;
    if (worker->tenant == tenant) weight.used += worker->share.weight;
  }
  return scheduler::dominant_share({memory, weight});
}

void Daemon::serve_queue() {
  while (!queue_.empty() && !stopping_) {
    const bool worker_waits = waiting_worker() != nullptr;
    if (std::none_of(queue_.begin(), queue_.end(),
                     [&](const QueuedGuest& guest) { return can_serve(guest, worker_waits); })) {
      break;
    }
    drop_gone();
    std::optional<QueuedGuest> next = next_guest();
    if (!next) break;
    QueuedGuest guest = std::move(*next);
    if (guest.terms.mode == SharingMode::kMps) {
      promise_worker(std::move(guest));
      continue;
    }
    if (guest.terms.mode == SharingMode::kPacked) {
      open_session(std::move(guest));
      continue;
    }
    Worker* worker = waiting_worker();
    const uint64_t session = ++next_session_;
    const Result<WorkerGrants> granted = take_grants(session, guest);
    if (!granted.ok()) {
      refuse(guest.connection.get(), granted.status());
      continue;
    }
    worker->session = session;
    worker->grants = worker->held = *granted;
    hand_over(worker, std::move(guest), worker->control.get());
  }
  keep_ahead();
  tend_houses();
}

// Which devices, and as much of each as was asked for.
Result<WorkerGrants> Daemon::take_grants(uint64_t session, const QueuedGuest& guest) {
  settle();
  std::vector<uint32_t> offered;
  if (guest.hello.devices.empty() && options_.guest_devices != 0)
    offered = ledgers_.emptiest(ready_.device_count, options_.guest_devices);
  const Result<std::vector<uint32_t>> chosen = choose_devices(identities_, offered, guest.hello);
  if (!chosen.ok()) return chosen.status();
  const GuestTerms& terms = guest.terms;
  return ledgers_.take(session, *chosen,
                       {terms.memory_bytes,
                        terms.exclusive,
                        {terms.tenant, terms.tenant_memory_bytes, terms.tenant_guests_max}});
}

void Daemon::hand_over(Worker* worker, QueuedGuest guest, int to, const std::vector<int>& more) {
  set_share(worker, guest.terms.share);
  worker->tenant = guest.terms.tenant;
  worker->profile = guest.terms.profile;
  worker->ask = ask_of(guest.hello);
  worker->limits = guest.terms.limits;
  worker->exclusive = guest.terms.exclusive;
  WorkerAssign assign;
  assign.session = worker->session;
  assign.grants = worker->grants;
  assign.share = worker->share;
  assign.record.ask = worker->ask;
  assign.record.limits = worker->limits;
  assign.record.exclusive = worker->exclusive;
  assign.record.mode = static_cast<uint32_t>(worker->mode);
  assign.record.mps_number = worker->mps_number;
  assign.record.memory_most = worker->memory_most;
  set_text(assign.record.tenant, worker->tenant);
  set_text(assign.record.profile, worker->profile);
  assign.guest_pid = guest.pid;
  assign.guest_uid = guest.uid;
  ++attached_;
  worker->started_ms = monotonic_ms();
  worker->guest_pid = guest.pid;
  worker->guest_uid = guest.uid;
  worker->executable = guest.hello.executable;
  worker->label = guest.hello.label;
  worker->remote = guest.hello.remote;
  std::vector<uint8_t> frame(sizeof(assign));
  std::memcpy(frame.data(), &assign, sizeof(assign));
  const std::vector<uint8_t> hello = protocol::encode_message(std::move(guest.hello));
  frame.insert(frame.end(), hello.begin(), hello.end());
  const int connection = guest.connection.get();
  Result<TurnKeeper::Papers> papers = enter_turns(worker);
  if (!papers.ok()) {
    refuse(connection, papers.status());
    end_session(worker);  // which gives the grant back
    return;
  }
  std::vector<int> descriptors = {connection, papers->board.get(), papers->bell.get()};
  descriptors.insert(descriptors.end(), more.begin(), more.end());
  if (Status sent = protocol::send_frame(to, frame, descriptors, 0); !sent.ok()) {
    refuse(connection,
           Status(StatusCode::kUnavailable, "the worker does not take it: " + sent.text()));
    end_session(worker);
    return;
  }
  log(Level::kInfo, "guest %d (%s): %s on %u of %u devices, worker %d", guest.pid,
      worker->executable.c_str(), size_text(sum_of(worker->grants)).c_str(), worker->grants.count,
      ready_.device_count, worker->pid);
}

Result<TurnKeeper::Papers> Daemon::enter_turns(Worker* worker) {
  set_os_weight(*worker);
  return turns_->add(static_cast<uint64_t>(worker->id),
                     reinterpret_cast<WorkerPage*>(worker->page.data()), worker->grants,
                     worker->share);
}

protocol::InfoReply Daemon::info(int connection) const {
  protocol::InfoReply reply;
  reply.server_version = kServerVersion;
  reply.server_pid = getpid();
  reply.uptime_ms = monotonic_ms() - started_ms_;
  if (devices_known_) {
    reply.driver = driver_kind_name(static_cast<DriverKind>(ready_.driver_kind));
    reply.driver_version = ready_.driver_version;
    reply.driver_path = get_text(ready_.driver_path);
    reply.driver_reason = get_text(ready_.why);
  }
  for (uint32_t i = 0; i < identities_.size(); ++i) {
    const ServedDevice& device = ready_.devices[i];
    reply.devices.push_back({get_text(device.name), device.memory_bytes, ledgers_.of(i).granted(),
                             device_uuid_text(device.uuid), identities_[i].pci_bus_id,
                             ledgers_.of(i).capacity()});
  }
  reply.networks = networks();
  for (const auto& [pid, worker] : workers_) {
    if (worker->session == 0 || reply.guests.size() >= protocol::kGuestsListedMax) continue;
    if (!may_see(connection, *worker)) continue;
    reply.guests.push_back(info_of(*worker));
  }
  return reply;
}

protocol::GuestInfo Daemon::info_of(const Worker& worker) const {
  protocol::GuestInfo guest;
  guest.session = worker.session;
  guest.pid = worker.guest_pid;
  guest.executable = worker.executable;
  guest.label = worker.label;
  guest.tenant = worker.tenant;
  guest.remote = worker.remote;
  guest.granted_bytes = sum_of(worker.grants);
  const auto* page = reinterpret_cast<const WorkerPage*>(worker.page.data());
  for (uint32_t i = 0; i < std::min<uint32_t>(worker.grants.count, protocol::kDevicesMax); ++i) {
    guest.devices.push_back(static_cast<uint8_t>(worker.grants.device[i]));
    // relaxed: a figure for people.
    guest.used_bytes += page->used_bytes[i].load(std::memory_order_relaxed);
  }
  guest.uptime_ms = monotonic_ms() - worker.started_ms;
  return guest;
}

bool Daemon::may_administer(int connection) const {
  Result<protocol::PeerCredentials> peer = protocol::peer_credentials(connection);
  return peer.ok() && trusted(peer->uid, peer->pid);
}

// Root and the server's own user. Containers have a root too, who is nobody here: their processes
// are numbered apart from the server's.
bool Daemon::trusted(uid_t uid, pid_t pid) const {
  if (uid != 0 && uid != geteuid()) return false;
  return same_space(view_pid(getpid()), view_pid(pid));
}

void Daemon::stop_requested(int connection, const protocol::StopRequest& request) {
  if (!may_administer(connection)) {
    decline(connection, Status(StatusCode::kPermissionDenied,
                               "only root and the server's own user "
                               "may stop it"));
    return;
  }
  protocol::StopReply reply;
  reply.guests_left = request.force ? 0 : guest_count();
  stopping_ = true;
  force_ = request.force;
  log(Level::kInfo, "asked to stop%s; %u guests go on", request.force ? " with all guests" : "",
      reply.guests_left);
  (void)protocol::send_message(connection, reply);
}

}  // namespace vgpu::server
