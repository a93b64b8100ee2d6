// Guests of one tenant in one process: started with the first of them, ended after the last. To
// vgpud each is a session with a page, a board, a socket and a door of its own.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "protocol/transport/transport.h"
#include "server/daemon.h"
#include "server/log.h"
#include "server/packed_worker.h"

namespace vgpu::server {
namespace {

uint64_t launch_ms_of(const GuestTerms& terms) {
  const uint64_t limit = terms.limits.of(protocol::GuestLimit::kLaunchMs);
  return limit == protocol::kUnlimited ? 0 : limit;
}

}  // namespace

uint32_t Daemon::guests_in(const Worker& house) const {
  const auto count = std::count_if(workers_.begin(), workers_.end(), [&](const auto& each) {
    return each.second->pid == house.pid && each.second->session != 0;
  });
  return static_cast<uint32_t>(count);
}

// One that takes such a guest now; `starting`: or will.
Daemon::Worker* Daemon::house_of(const GuestTerms& terms, bool starting) const {
  for (const auto& [id, worker] : workers_) {
    if (worker->mode == SharingMode::kPacked && worker->session == 0 && !worker->broken &&
        !worker->killed && worker->tenant == terms.tenant &&
        worker->launch_ms == launch_ms_of(terms) && (worker->ready || starting) &&
        guests_in(*worker) < kPackedGuestsMax) {
      return worker.get();
    }
  }
  return nullptr;
}

void Daemon::tend_houses() {
  if (stopping_ || !devices_known_) return;
  for (size_t i = 0; i < queue_.size(); ++i) {
    const GuestTerms& terms = queue_[i].terms;
    if (terms.mode == SharingMode::kPacked && house_of(terms, true) == nullptr) start_house(terms);
  }
}

void Daemon::start_house(const GuestTerms& terms) {
  WorkerPlan plan;
  plan.mode = SharingMode::kPacked;
  plan.launch_ms = launch_ms_of(terms);
  plan.user = options_.worker_users.take();
  if (plan.user == 0 && options_.worker_users.any()) return;  // until a number is free
  Worker* house = start_worker(plan);
  if (house == nullptr) {
    options_.worker_users.give_back(plan.user);
    start_again_ = true;
    return;
  }
  house->tenant = terms.tenant;
  house->launch_ms = plan.launch_ms;
  house->deadline_ms = monotonic_ms() + kPromiseMs;
}

void Daemon::open_session(QueuedGuest guest) {
  Worker* house = house_of(guest.terms, false);
  auto session = std::make_unique<Worker>();
  session->session = ++next_session_;
  const Result<WorkerGrants> granted = take_grants(session->session, guest);
  if (!granted.ok()) return refuse(guest.connection.get(), granted.status());
  session->grants = session->held = *granted;
  int pair[2] = {-1, -1};
  Result<UniqueFd> page = protocol::make_sealed_memory(kWorkerPageBytes, "vgpu-worker-page");
  Result<Doors::Door> door = doors_.make();
  Status status = !page.ok() ? page.status() : door.status();
  if (status.ok()) {
    Result<Mapping> mapping = Mapping::map_shared(page->get(), kWorkerPageBytes);
    status = mapping.status();
    if (mapping.ok()) session->page = std::move(mapping).value();
  }
  if (status.ok() && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    status = Status::from_errno(errno, "socketpair");
  if (!status.ok()) {
    ledgers_.give_back(session->session);
    return refuse(guest.connection.get(), status);
  }
  session->control.reset(pair[0]);
  const UniqueFd theirs(pair[1]);
  const Result<std::string> path = doors_.name(*door, house->pid, session->session);
  session->door = path.ok() ? *path : door->path;
  Worker* added = session.get();
  added->id = --last_session_id_;
  added->process.reset(fcntl(house->process.get(), F_DUPFD_CLOEXEC, 0));
  added->pid = house->pid;
  added->ready = true;
  added->mode = SharingMode::kPacked;
  added->user = house->user;
  const WorkerId id = added->id;
  workers_[id] = std::move(session);
  (void)loop_.add(added->process.get(), [this, id] { worker_ended(id); });
  (void)loop_.add(added->control.get(), [this, id] { peer_asked(id); });
  hand_over(added, std::move(guest), house->control.get(),
            {theirs.get(), page->get(), door->listener.get()});
}

// The session has closed its end: all that it had is the driver's again.
void Daemon::session_over(WorkerId id) {
  const pid_t pid = workers_.at(id)->pid;
  worker_ended(id);
  end_empty_house(pid);
}

void Daemon::end_empty_house(pid_t pid) {
  const auto found = workers_.find(pid);
  if (found == workers_.end() || stopping_) return;
  Worker* house = found->second.get();
  if (house->mode != SharingMode::kPacked || guests_in(*house) != 0) return;
  house->killed = true;
  kill_worker(*house);
}

// A packed guest's session alone; of others it is the whole process.
void Daemon::end_session(Worker* session) {
  if (session->mode != SharingMode::kPacked || session->session == 0) return kill_worker(*session);
  PeerMessage message;
  message.kind = PeerMessageKind::kEnd;
  (void)protocol::send_frame(session->control.get(), bytes_of(message), {}, 0);
}

void Daemon::house_ended(const Worker& house) {
  if (house.killed) return;
  log(Level::kWarn, "worker %d for packed guests of tenant %s has ended", house.pid,
      house.tenant.c_str());
  if (house.ready) return;
  const Status why(StatusCode::kUnavailable, "the worker for packed guests does not start");
  std::erase_if(queue_, [&](const QueuedGuest& guest) {
    const bool hit = guest.terms.mode == SharingMode::kPacked && guest.terms.tenant == house.tenant;
    if (hit) refuse(guest.connection.get(), why);
    return hit;
  });
}

// What the operating system is told of a process: all its guests' shares together.
scheduler::Share Daemon::share_of_process(const Worker& worker) const {
  scheduler::Share share = worker.share;
  if (worker.mode != SharingMode::kPacked) return share;
  uint64_t weight = 0;
  for (const auto& [id, each] : workers_) {
    if (each->pid != worker.pid || each->session == 0) continue;
    weight += each->share.weight;
    share.priority = std::min(share.priority, each->share.priority);  // the highest
  }
  share.weight = static_cast<uint32_t>(std::min<uint64_t>(weight, scheduler::kWeightMax));
  return share;
}

}  // namespace vgpu::server
