// Workers that are started for one guest, as those that are kept ready cannot serve it: what its
// mode puts into their environment must be there before the driver is loaded.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/clock.h"
#include "server/daemon.h"
#include "server/log.h"

namespace vgpu::server {
uint32_t Daemon::promises_of(const std::string& tenant) const {
  const auto count = std::count_if(workers_.begin(), workers_.end(), [&](const auto& each) {
    return each.second->promise && each.second->promise->guest.terms.tenant == tenant;
  });
  return static_cast<uint32_t>(count);
}

uint32_t Daemon::waiting_count() const {
  const auto promised = std::count_if(workers_.begin(), workers_.end(), [](const auto& each) {
    return each.second->promise && !each.second->promise->broken;
  });
  return static_cast<uint32_t>(queue_.size() + static_cast<size_t>(promised));
}

// Whether it is this guest's turn as soon as nobody comes before it. Others are served meanwhile.
bool Daemon::can_serve(const QueuedGuest& guest, bool worker_waits) const {
  if (guest.terms.mode == SharingMode::kIsolated) return worker_waits;
  if (guest.terms.mode == SharingMode::kPacked) return house_of(guest.terms, false) != nullptr;
  const auto found = mps_.find(guest.terms.tenant);
  return devices_known_ && found != mps_.end() &&
         found->second->daemon->state() == MpsDaemon::State::kReady &&
         promises_of(guest.terms.tenant) < kPromisesOfTenantMax;
}

// Its memory is granted before its worker starts, which is told how much it is.
void Daemon::promise_worker(QueuedGuest guest) {
  const uint64_t session = ++next_session_;
  const Result<WorkerGrants> granted = take_grants(session, guest);
  if (!granted.ok()) return refuse(guest.connection.get(), granted.status());
  const MpsDaemon& mps = *mps_.at(guest.terms.tenant)->daemon;
  std::vector<int32_t> ordinals;
  for (uint32_t i = 0; i < granted->count; ++i)
    ordinals.push_back(ready_.devices[granted->device[i]].ordinal);
  WorkerPlan plan;
  plan.user = mps.user();
  plan.mode = guest.terms.mode;
  plan.settings = mps.client_settings(guest.terms.thread_percent, *granted, ordinals);
  Worker* worker = start_worker(plan);
  if (worker == nullptr) {
    ledgers_.give_back(session);
    return refuse(guest.connection.get(),
                  Status(StatusCode::kUnavailable, "no worker can be started for it"));
  }
  worker->mode = plan.mode;
  worker->mps_number = mps.number();
  worker->memory_most = *std::min_element(granted->bytes, granted->bytes + granted->count);
  log(Level::kDebug, "worker %d starts for guest %d", worker->pid, guest.pid);
  worker->promise.emplace(
      Promise{session, *granted, std::move(guest), monotonic_ms() + kPromiseMs, false});
}

void Daemon::keep_promise(Worker* worker) {
  Promise promise = std::move(*worker->promise);
  worker->promise.reset();
  worker->session = promise.session;
  worker->grants = worker->held = promise.grants;
  if (promise.broken) return;  // it is being ended, which gives the grant back
  hand_over(worker, std::move(promise.guest), worker->control.get());
}

// The worker ends, and with it what was granted.
void Daemon::break_promise(Worker* worker, const Status& why) {
  if (worker->promise->broken) return;
  worker->promise->broken = true;
  refuse(worker->promise->guest.connection.get(), why);
  worker->promise->guest.connection.reset();
  kill_worker(*worker);
}

void Daemon::break_promises(const Status& why) {
  for (const auto& [pid, worker] : workers_) {
    if (worker->promise) break_promise(worker.get(), why);
  }
}

bool Daemon::end_slow_starts() {
  bool any = false;
  for (const auto& [pid, worker] : workers_) {
    const bool house = worker->mode == SharingMode::kPacked && worker->session == 0;
    if (house && !worker->ready) {
      any = true;
      if (worker->deadline_ms <= monotonic_ms()) kill_worker(*worker);
    }
    if (!worker->promise || worker->promise->broken) continue;
    any = true;
    if (worker->promise->deadline_ms > monotonic_ms()) continue;
    break_promise(worker.get(), Status(StatusCode::kTimedOut, "its worker does not start"));
  }
  return any;
}

}  // namespace vgpu::server
