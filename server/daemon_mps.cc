// Tenants whose guests share a device by NVIDIA's MPS: a control daemon for each, started with its
// first guest. Unverified until run on hardware.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "base/env.h"
#include "server/daemon.h"
#include "server/log.h"

namespace vgpu::server {
namespace {

constexpr int kVolta = 7;  // compute capability

}  // namespace

// Nobody is given isolated guests who asked for MPS ones.
Status Daemon::check_modes(const DaemonOptions& options) const {
  if (!options.policy.has_mode(SharingMode::kMps)) return ok_status();
  const auto no = [](const std::string& text) {
    return Status(StatusCode::kNotSupported, "a profile has mode = \"mps\", and " + text);
  };
  const auto kind = static_cast<DriverKind>(ready_.driver_kind);
  if (kind != DriverKind::kNvidia && env_text("VGPU_MPS_STAND_IN") != "1")
    return no(std::string("the driver here is ") + driver_kind_name(kind) +
              ": MPS is NVIDIA's driver's alone (for tests VGPU_MPS_STAND_IN=1 says that "
              "mps_control is a program that stands in for it)");
  for (uint32_t i = 0; kind == DriverKind::kNvidia && i < ready_.device_count; ++i) {
    if (ready_.devices[i].facts[static_cast<size_t>(protocol::DeviceFact::kComputeMajor)] < kVolta)
      return no("device " + std::to_string(i) +
                " is older than Volta: MPS does not keep clients' memory apart there");
  }
  return ok_status();
}

// Which daemon, when there is to be one. Null: no user or no folder is left for it now.
Daemon::MpsTenant* Daemon::mps_of(const std::string& tenant) {
  if (const auto found = mps_.find(tenant); found != mps_.end()) return found->second.get();
  const uid_t user = options_.worker_users.take();
  if (user == 0 && options_.worker_users.any()) return nullptr;
  const Result<uint32_t> number = mps_folders_.make(user);
  Status made = number.status();
  if (number.ok()) made = add_mps(tenant, *number, user);
  if (made.ok()) return mps_.at(tenant).get();
  log(Level::kError, "no MPS daemon for tenant %s: %s", tenant.c_str(), made.to_string().c_str());
  if (number.ok()) mps_folders_.remove(*number);
  options_.worker_users.give_back(user);
  return nullptr;
}

Status Daemon::add_mps(const std::string& tenant, uint32_t number, uid_t user) {
  Result<std::unique_ptr<MpsDaemon>> made =
      MpsDaemon::create(options_.mps_program, mps_folders_, number, user);
  if (!made.ok()) return made.status();
  MpsDaemon* daemon = made->get();
  VGPU_RETURN_IF_ERROR(
      loop_.add(daemon->errands().done_fd(), [daemon] { daemon->errands().finish(); }));
  auto& place = mps_[tenant] = std::make_unique<MpsTenant>();
  place->name = tenant;
  place->daemon = std::move(made).value();
  return ok_status();
}

bool Daemon::needs_mps(const std::string& tenant) const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [&](const auto& each) {
                       const Worker& worker = *each.second;
                       return worker.mode == SharingMode::kMps && worker.session != 0 &&
                              worker.tenant == tenant;
                     }) ||
         std::any_of(queue_.begin(), queue_.end(), [&](const QueuedGuest& guest) {
           return guest.terms.mode == SharingMode::kMps && guest.terms.tenant == tenant;
         });
}

// Starts the daemons that guests wait for, and again those that have ended. True while one is to be
// started later.
bool Daemon::tend_mps() {
  if (stopping_ || !devices_known_) return false;
  for (const QueuedGuest& guest : queue_) {
    if (guest.terms.mode == SharingMode::kMps) (void)mps_of(guest.terms.tenant);
  }
  bool later = false;
  for (const auto& [name, tenant] : mps_) {
    if (tenant->over || tenant->daemon->state() != MpsDaemon::State::kDown || !needs_mps(name))
      continue;
    if (tenant->failures >= kMpsFailuresMax) {
      refuse_queued(name, Status(StatusCode::kUnavailable,
                                 "the MPS daemon of tenant " + name + " does not start"));
      tenant->failures = 0;  // the next guest tries again
      later = later || needs_mps(name);
      tenant->started_ms = monotonic_ms();
      continue;
    }
    const bool due =
        tenant->started_ms == 0 || monotonic_ms() - tenant->started_ms >= kMpsRestartMs;
    if (due) start_mps(tenant.get());
    later = later || tenant->daemon->state() == MpsDaemon::State::kDown;
  }
  return later;
}

void Daemon::refuse_queued(const std::string& tenant, const Status& why) {
  std::erase_if(queue_, [&](const QueuedGuest& guest) {
    if (guest.terms.mode != SharingMode::kMps || guest.terms.tenant != tenant) return false;
    refuse(guest.connection.get(), why);
    return true;
  });
}

void Daemon::start_mps(MpsTenant* tenant) {
  MpsDaemon* daemon = tenant->daemon.get();
  tenant->started_ms = monotonic_ms();
  const uint64_t start = ++tenant->starts;
  Status status = daemon->start();
  if (daemon->process() >= 0)
    (void)loop_.add(daemon->process(), [this, tenant] { mps_ended(tenant); });
  if (!status.ok()) {
    log(Level::kError, "the MPS daemon of tenant %s: %s", tenant->name.c_str(),
        status.to_string().c_str());
    ++tenant->failures;
    if (daemon->process() >= 0) daemon->kill_hard();
    return;
  }
  const auto answered = std::make_shared<Status>();
  const auto process = std::make_shared<UniqueFd>(dup(daemon->process()));
  daemon->errands().add(
      [daemon, process, answered] {
        *answered = daemon->control().wait_until_it_answers(process->get(), kMpsStartMs);
      },
      [this, tenant, daemon, answered, start] {
        if (tenant->starts != start || daemon->state() != MpsDaemon::State::kStarting) return;
        if (!answered->ok()) {
          log(Level::kError, "the MPS daemon of tenant %s: %s", tenant->name.c_str(),
              answered->to_string().c_str());
          return daemon->kill_hard();
        }
        log(Level::kInfo, "the MPS daemon of tenant %s answers", tenant->name.c_str());
        tenant->failures = 0;
        daemon->set_ready();
        serve_queue();
      });
}

void Daemon::mps_ended(MpsTenant* tenant) {
  const bool answered = tenant->daemon->state() == MpsDaemon::State::kReady;
  loop_.remove(tenant->daemon->process());
  tenant->daemon->ended();
  if (!answered) ++tenant->failures;
  log(Level::kWarn, "the MPS daemon of tenant %s has ended%s", tenant->name.c_str(),
      needs_mps(tenant->name) ? "; it is started again" : "");
}

// Not on this thread: MPS first lets go of the client, or has had its time.
void Daemon::end_client(Worker* worker) {
  const auto found = mps_.find(worker->tenant);
  if (found == mps_.end() || found->second->daemon->state() != MpsDaemon::State::kReady)
    return kill_worker(*worker);
  if (worker->ending) return;
  worker->ending = true;
  MpsDaemon* daemon = found->second->daemon.get();
  const auto process = std::make_shared<UniqueFd>(dup(worker->process.get()));
  const auto ended = std::make_shared<Status>();
  const pid_t pid = worker->pid;
  daemon->errands().add(
      [daemon, process, ended, pid] {
        *ended = daemon->control().end_client(pid, kMpsEndMs);
        (void)syscall(SYS_pidfd_send_signal, process->get(), SIGKILL, nullptr, 0);
      },
      [ended, pid] {
        if (!ended->ok())
          log(Level::kWarn, "worker %d was killed while MPS still had it: %s", pid,
              ended->to_string().c_str());
      });
}

// What an earlier server has left: daemons with guests are taken over when these are adopted.
Status Daemon::adopt_mps(const Worker& worker) {
  options_.worker_users.keep(worker.user);
  if (mps_.count(worker.tenant) != 0) return ok_status();
  const auto numbers = mps_folders_.numbers();
  if (std::count(numbers.begin(), numbers.end(), worker.mps_number) == 0)
    return Status(StatusCode::kNotFound, "the folder of its MPS daemon is gone");
  VGPU_RETURN_IF_ERROR(add_mps(worker.tenant, worker.mps_number, worker.user));
  MpsTenant* tenant = mps_.at(worker.tenant).get();
  if (!tenant->daemon->find()) return ok_status();  // it is started again
  return loop_.add(tenant->daemon->process(), [this, tenant] { mps_ended(tenant); });
}

// The others are told to quit.
void Daemon::sweep_mps() {
  if (mps_swept_ || !found_.empty()) return;
  mps_swept_ = true;
  for (const uint32_t number : mps_folders_.numbers()) {
    if (std::any_of(mps_.begin(), mps_.end(), [number](const auto& each) {
          return each.second->daemon->number() == number;
        })) {
      continue;
    }
    const uid_t user = mps_folders_.user_of(number);
    options_.worker_users.keep(user);
    // No tenant is called so.
    const std::string name = "/" + std::to_string(number);
    if (!add_mps(name, number, user).ok()) continue;
    MpsTenant* tenant = mps_.at(name).get();
    if (tenant->daemon->find()) {
      log(Level::kInfo, "an MPS daemon without guests is left from an earlier server");
      quit_mps(tenant);
    } else {
      tenant->over = true;
      mps_folders_.remove(number);
      options_.worker_users.give_back(user);
    }
  }
}

// Then its folder goes.
void Daemon::quit_mps(MpsTenant* tenant) {
  tenant->over = true;
  MpsDaemon* daemon = tenant->daemon.get();
  const bool answers = daemon->state() == MpsDaemon::State::kReady;
  const auto process = std::make_shared<UniqueFd>(dup(daemon->process()));
  const auto quit = std::make_shared<Status>();
  daemon->errands().add(
      [daemon, process, quit, answers] {
        if (answers) *quit = daemon->control().quit(kMpsQuitMs);
        pollfd end{process->get(), POLLIN, 0};
        if (process->valid() && (!answers || !quit->ok() || poll(&end, 1, kMpsQuitMs) <= 0))
          (void)syscall(SYS_pidfd_send_signal, process->get(), SIGKILL, nullptr, 0);
        if (process->valid()) (void)poll(&end, 1, kMpsQuitMs);
      },
      [this, tenant, quit] {
        if (!quit->ok())
          log(Level::kWarn, "the MPS daemon of tenant %s was killed: %s", tenant->name.c_str(),
              quit->to_string().c_str());
        if (tenant->daemon->process() >= 0) {
          loop_.remove(tenant->daemon->process());
          tenant->daemon->ended();
        }
        mps_folders_.remove(tenant->daemon->number());
        options_.worker_users.give_back(tenant->daemon->user());
      });
}

// Guests that go on keep their daemon: a later server finds both.
void Daemon::end_mps(bool guests_too) {
  for (const auto& [name, tenant] : mps_) {
    const bool kept = tenant->over || (!guests_too && needs_mps(name));
    if (!kept && tenant->daemon->state() != MpsDaemon::State::kDown) {
      quit_mps(tenant.get());
    } else if (!kept) {
      mps_folders_.remove(tenant->daemon->number());
    }
  }
  const uint64_t deadline = monotonic_ms() + kMpsStopMs;
  const auto busy = [this] {
    return std::any_of(mps_.begin(), mps_.end(),
                       [](const auto& each) { return !each.second->daemon->errands().idle(); });
  };
  while (busy() && monotonic_ms() < deadline) loop_.run_once(kMpsPollMs);
  for (const auto& [pid, worker] : workers_) {
    if (worker->ending) kill_worker(*worker);
  }
}

}  // namespace vgpu::server
