// vgpud's workers: kept ready ahead of guests, reaped, adopted from an earlier server.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/clock.h"
#include "protocol/transport/spawn.h"
#include "protocol/transport/transport.h"
#include "server/daemon.h"
#include "server/log.h"
#include "server/os_weight.h"

namespace vgpu::server {
namespace {

std::string exit_text(int status) {
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "status " + std::to_string(status);
}

}  // namespace

void Daemon::keep_ahead() {
  start_again_ = false;
  // Until one has said what the device is, more would only fail in the same way.
  const unsigned wanted = devices_known_ ? std::max(1U, options_.workers_ahead) : 1;
  unsigned waiting = 0;
  for (const auto& [pid, worker] : workers_)
    waiting += worker->session == 0 && !worker->promise && worker->mode == SharingMode::kIsolated;
  while (!stopping_ && waiting < wanted) {
    const size_t before = workers_.size();
    start_worker();
    if (workers_.size() == before) return;
    ++waiting;
  }
}

void Daemon::start_worker() {
  WorkerPlan plan;
  plan.user = options_.worker_users.take();
  if (plan.user == 0 && options_.worker_users.any()) {
    // Never one as root: guests wait until a number is free.
    if (!users_used_up_) log(Level::kError, "all of --worker-users are in use: give it more");
    users_used_up_ = true;
    return;
  }
  users_used_up_ = false;
  if (start_worker(plan) != nullptr) return;
  options_.worker_users.give_back(plan.user);
  start_again_ = true;
  if (!devices_known_) {
    stopping_ = true;
    exit_code_ = 1;
  }
}

// Null when the system gives no process, which has been said.
Daemon::Worker* Daemon::start_worker(const WorkerPlan& plan) {
  const std::string driver = devices_known_ ? get_text(ready_.driver_path) : options_.driver;
  const bool named = options_.driver == "soft" || options_.driver == "nvidia";
  std::vector<std::string> arguments = {
      "--driver",
      named || !devices_known_                                          ? options_.driver
      : ready_.driver_kind == static_cast<int32_t>(DriverKind::kSoft)   ? "soft"
      : ready_.driver_kind == static_cast<int32_t>(DriverKind::kNvidia) ? "nvidia"
                                                                        : driver,
      "--log-level", options_.log_level};
  if (!options_.devices.empty()) {
    arguments.push_back("--devices");
    arguments.push_back(options_.devices);
  }
  if (plan.user != 0) arguments.insert(arguments.end(), {"--user", std::to_string(plan.user)});
  if (plan.mode != SharingMode::kIsolated)
    arguments.insert(arguments.end(), {"--mode", mode_name(plan.mode)});
  if (plan.launch_ms != 0)
    arguments.insert(arguments.end(), {"--launch-ms", std::to_string(plan.launch_ms)});
  Result<Doors::Door> door = doors_.make();
  arguments.insert(arguments.end(), {"--door", "4"});
  Result<protocol::Spawned> spawned = door.status();
  if (door.ok()) {
    const int listener = door->listener.get();
    spawned = protocol::spawn(options_.worker_program, arguments, {&listener, 1}, plan.settings);
  }
  if (!spawned.ok()) {
    log(Level::kError, "cannot start a worker: %s", spawned.status().to_string().c_str());
    return nullptr;
  }
  auto worker = std::make_unique<Worker>();
  worker->pid = spawned->pid;
  worker->child = true;
  worker->user = plan.user;
  worker->mode = plan.mode;
  Result<std::string> path = doors_.name(*door, worker->pid);
  worker->door = path.ok() ? *path : door->path;
  worker->control = std::move(spawned->control);
  worker->process = std::move(spawned->process);
  const WorkerId id = worker->id = worker->pid;
  (void)loop_.add(worker->process.get(), [this, id] { worker_ended(id); });
  (void)loop_.add(worker->control.get(), [this, id] { worker_spoke(id); });
  return (workers_[id] = std::move(worker)).get();
}

void Daemon::worker_spoke(WorkerId id) {
  Worker* worker = workers_.at(id).get();
  if (worker->ready) {
    peer_asked(id);
    return;
  }
  Result<protocol::ControlFrame> frame = protocol::receive_frame(worker->control.get(), 0);
  if (!frame.ok()) {
    if (frame.status().code() != StatusCode::kTimedOut) {
      loop_.remove(worker->control.get());  // its end is told by the process descriptor
    }
    return;
  }
  WorkerReady ready;
  Result<Mapping> page = map_worker_page(frame->descriptors);
  if (!read_front(frame->bytes, &ready) || !page.ok()) {
    log(Level::kError, "worker %d is of another version than this server", worker->pid);
    kill_worker(*worker);
    return;
  }
  worker->page = std::move(page).value();
  worker->ready = true;
  start_failures_ = 0;
  learn_devices(ready);
  if (worker->promise) keep_promise(worker);
  serve_queue();
  keep_ahead();
}

void Daemon::learn_devices(const WorkerReady& ready) {
  if (devices_known_) return;
  devices_known_ = true;
  ready_ = ready;
  ready_.device_count = std::min<uint32_t>(ready.device_count, protocol::kDevicesMax);
  const auto kind = static_cast<DriverKind>(ready.driver_kind);
  constexpr uint64_t kHeadroomOfHardware = uint64_t{1} << 30;  // contexts cost about 600 MiB each
  headroom_ = options_.headroom_given       ? options_.headroom
              : kind == DriverKind::kNvidia ? kHeadroomOfHardware
                                            : 0;
  log(Level::kInfo, "driver: %s (%s), because: %s", driver_kind_name(kind),
      get_text(ready.driver_path).c_str(), get_text(ready.why).c_str());
  const bool fair = options_.scheduler == SchedulerKind::kFair ||
                    (options_.scheduler == SchedulerKind::kAuto && kind == DriverKind::kSoft);
  if (!fair && options_.policy.has_shares())
    log(Level::kWarn, "weights, caps and classes of profiles count under --scheduler fair only");
  // Where kernels run on processors.
  os_weights_ = fair && kind == DriverKind::kSoft && may_set_nice();
  for (uint32_t i = 0; i < ready_.device_count; ++i) {
    const ServedDevice& device = ready_.devices[i];
    DeviceIdentity& identity = identities_.emplace_back();
    std::copy_n(device.uuid, identity.uuid.size(), identity.uuid.begin());
    identity.pci_bus_id = get_text(device.pci_bus_id);
    Grants& ledger = ledgers_.of(i);
    ledger.set_capacity(device.memory_bytes, headroom_, options_.memory_default);
    log(Level::kInfo, "device %u: %s at %s, %s, of which %s can be granted", i,
        get_text(device.name).c_str(), identity.pci_bus_id.c_str(),
        size_text(device.memory_bytes).c_str(), size_text(ledger.capacity()).c_str());
  }
  if (const Status separate = check_separation(options_); !separate.ok()) {
    log(Level::kError, "refusing to serve: %s", separate.text().c_str());
    stopping_ = true;
    exit_code_ = 1;
  }
  if (const Status modes = check_modes(options_); !modes.ok()) {
    log(Level::kError, "refusing to serve: %s", modes.text().c_str());
    stopping_ = true;
    exit_code_ = 1;
  }
  const bool reached = std::any_of(ready_.devices, ready_.devices + ready_.device_count,
                                   [](const auto& device) { return device.reaches_host_memory; });
  if (reached && (options_.socket_mode & 066) != 0 && !options_.policy.divides())
    log(Level::kWarn, "all users are one tenant here, and kernels reach their worker's own memory");
}

// A kernel that reaches its worker's heap and stack has taken the worker over. Between guests of
// one tenant that is their own affair.
Status Daemon::check_separation(const DaemonOptions& options) const {
  const bool one_tenant = options.policy.tenants().size() <= 1 && options.networks.empty();
  if (one_tenant || options.tenants_reach_host_memory) return ok_status();
  for (uint32_t i = 0; i < ready_.device_count; ++i) {
    if (ready_.devices[i].reaches_host_memory == 0) continue;
    return Status(StatusCode::kPermissionDenied,
                  "kernels on device " + std::to_string(i) +
                      " can read and write their worker's own memory (HMM or ATS is on), and more "
                      "than one tenant is served. Load nvidia-uvm with uvm_disable_hmm=1, serve "
                      "one tenant, or say --tenants-reach-host-memory");
  }
  return ok_status();
}

Daemon::Worker* Daemon::waiting_worker() {
  for (auto& [pid, worker] : workers_) {
    if (worker->ready && worker->session == 0 && worker->mode == SharingMode::kIsolated)
      return worker.get();
  }
  return nullptr;
}

void Daemon::end_worker(Worker* worker) {
  if (worker->mode == SharingMode::kMps && worker->session != 0) return end_client(worker);
  end_session(worker);
}

// By descriptor: a number may be another process's by now.
void Daemon::kill_worker(const Worker& worker) {
  (void)syscall(SYS_pidfd_send_signal, worker.process.get(), SIGKILL, nullptr, 0);
}

void Daemon::worker_ended(WorkerId id) {
  auto it = workers_.find(id);
  if (it == workers_.end()) return;
  const std::unique_ptr<Worker> worker = std::move(it->second);
  workers_.erase(it);
  const pid_t pid = worker->pid;
  loop_.remove(worker->process.get());
  if (worker->control.valid()) loop_.remove(worker->control.get());
  ledgers_.give_back(worker->promise ? worker->promise->session : worker->session);
  turns_->remove(static_cast<uint64_t>(worker->id));
  const bool shared = std::any_of(workers_.begin(), workers_.end(),
                                  [pid](const auto& each) { return each.second->pid == pid; });
  // Of MPS clients it is their daemon's too.
  if (worker->mode != SharingMode::kMps && !shared) options_.worker_users.give_back(worker->user);
  (void)unlink(worker->door.c_str());
  int status = 0;
  if (worker->child) (void)waitpid(pid, &status, 0);
  if (worker->left) status = W_EXITCODE(worker->left_code, 0);
  failed_workers_ += status != 0 && !worker->killed;
  if (worker->session != 0) {
    (void)reading_of(*worker);  // what it used last
    accounts_.end(worker->session);
    log(status == 0 ? Level::kInfo : Level::kWarn, "guest %d (%s): session ended, worker %d: %s",
        worker->guest_pid, worker->executable.c_str(), pid, exit_text(status).c_str());
  } else if (worker->promise) {
    if (!worker->promise->broken)
      refuse(worker->promise->guest.connection.get(),
             Status(StatusCode::kUnavailable, "its worker ended: " + exit_text(status)));
  } else if (worker->mode == SharingMode::kPacked) {
    house_ended(*worker);
  } else {
    log(Level::kWarn, "worker %d ended while it waited: %s", pid, exit_text(status).c_str());
    if (!worker->ready) ++start_failures_;
  }
  if (start_failures_ >= kStartFailuresMax) {
    log(Level::kError, "%d workers in a row did not start; giving up", start_failures_);
    stopping_ = true;
    exit_code_ = 1;
  }
  keep_ahead();
  serve_queue();
}

}  // namespace vgpu::server
