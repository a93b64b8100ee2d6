// vgpud's life: start, loop, signals, stop.
// SPDX-License-Identifier: Apache-2.0
#include "server/daemon.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "server/log.h"

namespace vgpu::server {

Daemon::Daemon(DaemonOptions options, EventLoop loop)
    : options_(std::move(options)),
      loop_(std::move(loop)),
      doors_(options_.listen_path),
      mps_folders_(options_.listen_path) {
  started_ms_ = monotonic_ns() / 1'000'000;
  // Sessions of an earlier server may be adopted: numbers go on from the clock.
  next_session_ = started_ms_ << 16;
}

Daemon::~Daemon() = default;

Status Daemon::listen() {
  Result<UniqueFd> listener = protocol::listen_unix(options_.listen_path, options_.socket_mode);
  // A server that was killed may have left a worker between fork and exec, which holds the socket
  // for that long.
  for (int i = 0;
       i < kListenTries && !listener.ok() && listener.status().code() == StatusCode::kAlreadyExists;
       ++i) {
    (void)poll(nullptr, 0, kListenRetryMs);
    listener = protocol::listen_unix(options_.listen_path, options_.socket_mode);
  }
  if (!listener.ok()) return listener.status();
  listener_ = std::move(listener).value();
  return loop_.add(listener_.get(), [this] { accept_all(); });
}

Status Daemon::watch_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signals_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) return Status::from_errno(errno, "signalfd");
  return loop_.add(signals_.get(), [this] { signalled(); });
}

void Daemon::signalled() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGHUP) {
      reload();
      continue;
    }
    log(Level::kInfo, "signal %u: stopping; %u guests go on without the server", info.ssi_signo,
        guest_count());
    stopping_ = true;
  }
}

Status Daemon::start_turns() {
  Result<std::unique_ptr<TurnKeeper>> made = TurnKeeper::create(options_.scheduler);
  if (!made.ok()) return made.status();
  turns_ = std::move(made).value();
  return ok_status();
}

int Daemon::run() {
  Status status = watch_signals();
  if (status.ok()) status = start_turns();
  if (status.ok()) status = listen();
  if (status.ok()) status = start_metrics();  // behind watch_signals: its threads block them too
  if (status.ok()) status = doors_.open();
  if (!status.ok()) {
    log(Level::kError, "cannot start: %s", status.to_string().c_str());
    return 1;
  }
  log(Level::kInfo, "listening on unix:%s", options_.listen_path.c_str());
  if (geteuid() == 0 && !options_.worker_users.any())
    log(Level::kWarn, "workers run as root: see --worker-users");
  for (const std::string& address : options_.networks) {
    gates_.push_back(std::make_unique<Gate>());
    gates_.back()->address = address;
    gates_.back()->users = options_.worker_users.cut(kSessionUsers);
    if (geteuid() == 0 && !gates_.back()->users.any())
      log(Level::kWarn, "what stands for remote guests runs as root: --worker-users has no %u more",
          4 * kSessionUsers);
  }
  look_for_workers();
  sweep_mps();
  start_gates();
  keep_ahead();
  while (!stopping_) {
    const bool gate_due =
        std::any_of(gates_.begin(), gates_.end(), [](const auto& gate) { return gate->pid == 0; });
    const bool mps_due = tend_mps(), starts = end_slow_starts();
    const bool timed =
        !unheard_.empty() || gate_due || start_again_ || accept_again_ || mps_due || starts;
    loop_.run_once(timed ? kTickMs : -1);
    close_silent();
    start_gates();
    if (start_again_) keep_ahead();
    if (accept_again_) listen_again();
  }
  end_all(force_);
  return exit_code_;
}

// Waiting workers end with their control sockets; serving ones only when that is asked for.
void Daemon::end_all(bool guests_too) {
  if (listener_.valid()) {
    loop_.remove(listener_.get());
    listener_.reset();
    (void)unlink(options_.listen_path.c_str());
  }
  for (QueuedGuest& guest : queue_) {
    refuse(guest.connection.get(), Status(StatusCode::kUnavailable, "the server is stopping"));
  }
  queue_.clear();
  break_promises(Status(StatusCode::kUnavailable, "the server is stopping"));
  for (const auto& [pid, worker] : workers_) {
    const bool house = worker->mode == SharingMode::kPacked && worker->session == 0;
    const bool kept = worker->session != 0 || (house && guests_in(*worker) != 0);
    if (!guests_too && kept) continue;
    end_worker(worker.get());
    (void)unlink(worker->door.c_str());
  }
  end_mps(guests_too);
  doors_.close();
  // A gate whose server is gone listens no more, and ends with its last guest.
  for (const auto& gate : gates_) gate->control.reset();
}

uint32_t Daemon::guest_count() const {
  uint32_t count = 0;
  for (const auto& [pid, worker] : workers_) count += worker->session != 0;
  return count;
}

}  // namespace vgpu::server
