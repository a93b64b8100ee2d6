// vgpud's operators: seeing guests with all their figures, and changing what they may have while
// they run.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/visible_devices.h"
#include "base/clock.h"
#include "server/daemon.h"
#include "server/device_choice.h"
#include "server/log.h"
#include "server/os_weight.h"

namespace vgpu::server {
namespace {

using protocol::SteerAction;
using protocol::SteerReply;
using protocol::SteerRequest;

uint64_t load(const std::atomic<uint64_t>& figure) {
  return figure.load(std::memory_order_relaxed);  // a figure for people
}

uint64_t rounded_up(uint64_t bytes) {
  return bytes > UINT64_MAX - kGrantStepBytes
             ? UINT64_MAX
             : (bytes + kGrantStepBytes - 1) / kGrantStepBytes * kGrantStepBytes;
}

Status check_limit(const SteerRequest& request) {
  if (request.weight > scheduler::kWeightMax)
    return Status(StatusCode::kInvalidArgument,
                  "a share is a number from 1 to " + std::to_string(scheduler::kWeightMax));
  if (request.cap_permille > scheduler::kPermille)
    return Status(StatusCode::kInvalidArgument, "a cap is at most 100 percent");
  if (request.priority > scheduler::kClasses)
    return Status(StatusCode::kInvalidArgument, "there is no such priority class");
  return ok_status();
}

// What has changed that a reload does not take over, by its names in the configuration.
std::vector<std::string> changed_for_good(const DaemonOptions& was, const DaemonOptions& is) {
  const std::pair<const char*, bool> all[] = {
      {"listen", was.listen_path != is.listen_path || was.networks != is.networks},
      {"socket_mode", was.socket_mode != is.socket_mode},
      {"driver", was.driver != is.driver},
      {"devices", was.devices != is.devices},
      {"headroom", was.headroom != is.headroom || was.headroom_given != is.headroom_given},
      {"workers_ahead", was.workers_ahead != is.workers_ahead},
      {"worker_users", !was.worker_users.same_range(is.worker_users)},
      {"scheduler", was.scheduler != is.scheduler},
      {"mps_control", was.mps_program != is.mps_program},
      {"metrics", was.metrics != is.metrics},
      {"server_key", was.server_key != is.server_key},
      {"authorized_keys", was.authorized_keys != is.authorized_keys},
      {"network_grace", was.network_grace != is.network_grace},
      {"require_encryption", was.require_encryption != is.require_encryption},
      {"log_level", was.log_level != is.log_level}};
  std::vector<std::string> changed;
  for (const auto& [key, differs] : all) {
    if (differs) changed.emplace_back(key);
  }
  return changed;
}

}  // namespace

Daemon::Worker* Daemon::find_session(uint64_t session) const {
  for (const auto& [pid, worker] : workers_) {
    if (session != 0 && worker->session == session) return worker.get();
  }
  return nullptr;
}

bool Daemon::may_see(int connection, const Worker& worker) const {
  const Result<protocol::PeerCredentials> peer = protocol::peer_credentials(connection);
  return peer.ok() && (trusted(peer->uid, peer->pid) || peer->uid == worker.guest_uid);
}

protocol::GuestsReply Daemon::guests_after(int connection, uint64_t session) const {
  protocol::GuestsReply reply;
  reply.draining = draining_;
  reply.waiting = waiting_count();
  for (uint32_t i = 0; i < identities_.size(); ++i) {
    const ServedDevice& device = ready_.devices[i];
    const Grants& ledger = ledgers_.of(i);
    reply.devices.push_back({get_text(device.name), device_uuid_text(device.uuid),
                             device.memory_bytes, ledger.capacity(), ledger.granted()});
  }
  std::map<uint64_t, const Worker*> found;
  for (const auto& [pid, worker] : workers_) {
    if (worker->session > session && may_see(connection, *worker))
      found[worker->session] = worker.get();
  }
  for (const auto& [number, worker] : found) {
    reply.more = reply.guests.size() == protocol::kGuestsPageMax;
    if (reply.more) break;
    reply.guests.push_back(state_of(*worker));
  }
  return reply;
}

protocol::GuestState Daemon::state_of(const Worker& worker) const {
  protocol::GuestState state;
  state.session = worker.session;
  state.pid = worker.guest_pid;
  state.uid = worker.guest_uid;
  state.executable = worker.executable;
  state.label = worker.label;
  state.tenant = worker.tenant;
  state.profile = worker.profile;
  state.mode = static_cast<uint8_t>(worker.mode);
  state.uptime_ms = monotonic_ns() / 1'000'000 - worker.started_ms;
  state.weight = worker.share.weight;
  state.cap_permille = worker.share.cap_permille;
  state.priority = static_cast<uint8_t>(worker.share.priority);
  const auto* page = reinterpret_cast<const WorkerPage*>(worker.page.data());
  for (uint32_t i = 0; i < std::min<uint32_t>(worker.grants.count, protocol::kDevicesMax); ++i) {
    // An adopted guest may have a device that is not served now, or not known yet.
    if (worker.grants.device[i] >= identities_.size()) continue;
    state.devices.push_back(static_cast<uint8_t>(worker.grants.device[i]));
    state.granted_bytes.push_back(worker.grants.bytes[i]);
    state.used_bytes.push_back(load(page->used_bytes[i]));
  }
  state.kernels = load(page->kernels);
  for (size_t i = 0; i < 2; ++i) state.copied_bytes[i] = load(page->copied_bytes[i]);
  state.refused_allocations = load(page->refused_allocations);
  for (size_t i = 0; i < protocol::kEngineFigures; ++i)
    state.device_ns[i] = load(page->device_ns[i]);
  state.wait_ns = load(page->wait_ns);
  state.throttled_ns = load(page->throttled_ns);
  return state;
}

void Daemon::steer(int connection, const SteerRequest& request) {
  if (!may_administer(connection)) {
    decline(connection, Status(StatusCode::kPermissionDenied,
                               "only root and the server's own user may steer guests"));
    return;
  }
  SteerReply reply;
  reply.guests = guest_count();
  Worker* worker = find_session(request.session);
  const bool names_guest =
      request.action == SteerAction::kLimit || request.action == SteerAction::kKill;
  if (names_guest && worker == nullptr) {
    decline(connection,
            Status(StatusCode::kNotFound, "there is no guest " + std::to_string(request.session)));
    return;
  }
  if (request.action == SteerAction::kLimit) {
    const Result<SteerReply> limited = limit(request);
    if (!limited.ok()) return decline(connection, limited.status());
    reply = *limited;
  } else if (request.action == SteerAction::kKill) {
    log(Level::kWarn, "guest %d (%s): an operator ends its session", worker->guest_pid,
        worker->executable.c_str());
    worker->killed = true;
    end_worker(worker);
  } else {
    draining_ = request.action == SteerAction::kDrain;
    while (draining_ && !queue_.empty()) {
      refuse(queue_.front().connection.get(), draining_refusal());
      queue_.pop_front();
    }
    if (draining_) break_promises(draining_refusal());
    log(Level::kInfo, draining_ ? "draining: no new guests; %u run" : "new guests again; %u run",
        guest_count());
  }
  (void)protocol::send_message(connection, reply);
}

// What can fail comes first, so that all of it holds or nothing does.
Result<SteerReply> Daemon::limit(const SteerRequest& request) {
  VGPU_RETURN_IF_ERROR(check_limit(request));
  Worker* worker = find_session(request.session);
  const WorkerGrants grants = worker->grants, held = worker->held;
  if (request.memory_bytes != 0) VGPU_RETURN_IF_ERROR(set_memory(worker, request.memory_bytes));
  if (request.memory_bytes != 0) worker->set.memory_bytes = request.memory_bytes;
  scheduler::Share share = worker->share;
  if (request.weight != 0) share.weight = worker->set.weight = request.weight;
  if (request.cap_permille != 0)
    share.cap_permille = worker->set.cap_permille = request.cap_permille;
  if (request.priority != 0) {
    worker->set.priority = request.priority;
    share.priority = static_cast<scheduler::PriorityClass>(request.priority - 1);
  }
  set_share(worker, share);
  if (const Status sent = send_order(worker); !sent.ok()) {
    // A raise that the worker has not heard of is nobody's. Its share may change all the same.
    (void)ledgers_.resize(worker->session, worker->held, held, bound_of(worker->tenant));
    worker->grants = grants;
    worker->held = held;
    return Status(StatusCode::kUnavailable, "the guest's worker does not listen; its memory stays");
  }
  log(Level::kInfo, "guest %d (%s): an operator gives it %s, weight %u, cap %.1f %%, priority %s",
      worker->guest_pid, worker->executable.c_str(), size_text(sum_of(worker->grants)).c_str(),
      share.weight, share.cap_permille / 10.0, priority_name(share.priority));
  SteerReply reply;
  reply.memory_bytes = worker->grants.bytes[0];
  reply.weight = share.weight;
  reply.cap_permille = share.cap_permille;
  reply.priority = 1 + static_cast<uint32_t>(share.priority);
  if (sum_of(worker->held) > sum_of(worker->grants)) {
    const auto* page = reinterpret_cast<const WorkerPage*>(worker->page.data());
    for (uint32_t i = 0; i < worker->grants.count; ++i)
      reply.held_bytes += load(page->used_bytes[i]);
    if (reply.held_bytes <= sum_of(worker->grants)) reply.held_bytes = 0;
  }
  return reply;
}

// More is taken from what is free at once. Less is free once the worker has said that it holds.
Status Daemon::set_memory(Worker* worker, uint64_t bytes) {
  if (worker->exclusive)
    return Status(StatusCode::kInvalidArgument, "the guest has whole devices for itself");
  if (bytes > protocol::kMemoryAskMax)
    return Status(StatusCode::kInvalidArgument, "more memory than any device has");
  if (worker->memory_most != 0 && rounded_up(bytes) > worker->memory_most)
    return Status(StatusCode::kInvalidArgument,
                  "MPS lets its worker have at most " + size_text(worker->memory_most) +
                      " on a device, which cannot change while it runs");
  settle();
  WorkerGrants wanted = worker->grants, held = worker->held;
  for (uint32_t i = 0; i < wanted.count; ++i) {
    wanted.bytes[i] = rounded_up(bytes);
    held.bytes[i] = std::max(held.bytes[i], wanted.bytes[i]);
  }
  VGPU_RETURN_IF_ERROR(
      ledgers_.resize(worker->session, worker->held, held, bound_of(worker->tenant)));
  worker->grants = wanted;
  worker->held = held;
  return ok_status();
}

// The one place where a running guest's share changes.
void Daemon::set_share(Worker* worker, const scheduler::Share& share) {
  worker->share = share;
  turns_->set_share(static_cast<uint64_t>(worker->id), share);
  set_os_weight(*worker);
}

// So that a worker which takes no notice of turns has no more than its part of the processors.
void Daemon::set_os_weight(const Worker& worker) const {
  if (!os_weights_ || set_nice_steps(worker.pid, nice_steps(share_of_process(worker)))) return;
  log(Level::kWarn, "worker %d: not all of its threads have the niceness of its share", worker.pid);
}

Status Daemon::send_order(Worker* worker) {
  WorkerOrder order;
  order.number = ++worker->order;
  order.grants = worker->grants;
  order.share = worker->share;
  order.set = worker->set;
  worker->obeyed = false;
  // Never waits: a worker that does not listen keeps what it had, and the ledgers count that.
  const Status sent = protocol::send_frame(worker->control.get(), bytes_of(order), {}, 0);
  if (!sent.ok())
    log(Level::kWarn, "worker %d does not listen: %s", worker->pid, sent.to_string().c_str());
  return sent;
}

void Daemon::obeyed(Worker* worker, const WorkerObeyed& message) {
  if (message.number != worker->order) return;  // another order is on its way
  worker->obeyed = true;
  count_held(worker, message.used_bytes);
}

void Daemon::count_held(Worker* worker, const uint64_t* used_bytes) {
  const auto* page = reinterpret_cast<const WorkerPage*>(worker->page.data());
  WorkerGrants held = worker->held;
  for (uint32_t i = 0; i < std::min<uint32_t>(held.count, protocol::kDevicesMax); ++i) {
    const uint64_t used =
        rounded_up(used_bytes != nullptr ? used_bytes[i] : load(page->used_bytes[i]));
    // Never more than before: it cannot have got any since.
    held.bytes[i] = std::min(held.bytes[i], std::max(worker->grants.bytes[i], used));
  }
  if (sum_of(held) == sum_of(worker->held)) return;
  (void)ledgers_.resize(worker->session, worker->held, held, bound_of(worker->tenant));
  worker->held = held;
}

void Daemon::settle() {
  for (const auto& [pid, worker] : workers_) {
    if (worker->session != 0 && worker->obeyed) count_held(worker.get(), nullptr);
  }
}

TenantBound Daemon::bound_of(const std::string& name) const {
  TenantBound bound;
  bound.name = name;
  if (const Tenant* tenant = options_.policy.tenant(name); tenant != nullptr) {
    bound.bytes_max = tenant->memory_bytes;
    bound.guests_max = tenant->guests_max;
  }
  return bound;
}

// Profiles, tenants and defaults hold for new guests, shares for running ones too; whatever else
// has changed needs a new start.
void Daemon::reload() {
  if (!options_.read_again) return;
  Result<DaemonOptions> read = options_.read_again();
  if (!read.ok()) {
    log(Level::kError, "the configuration stays as it was: %s", read.status().text().c_str());
    return;
  }
  if (const Status separate = check_separation(*read); !separate.ok()) {
    log(Level::kError, "the configuration stays as it was: %s", separate.text().c_str());
    return;
  }
  if (const Status modes = check_modes(*read); !modes.ok()) {
    log(Level::kError, "the configuration stays as it was: %s", modes.text().c_str());
    return;
  }
  options_.policy = std::move(read->policy);
  options_.tenants_reach_host_memory = read->tenants_reach_host_memory;
  options_.guest_devices = read->guest_devices;
  options_.memory_default = read->memory_default;
  for (uint32_t i = 0; i < identities_.size(); ++i)
    ledgers_.of(i).set_capacity(ready_.devices[i].memory_bytes, headroom_, options_.memory_default);
  for (const std::string& key : changed_for_good(options_, *read))
    log(Level::kWarn, "the change of %s needs a new start of the server", key.c_str());
  uint32_t changed = 0;
  for (const auto& [pid, worker] : workers_) {
    if (worker->session == 0) continue;
    const auto share = options_.policy.share_of(worker->profile, worker->ask, worker->set,
                                                trusted(worker->guest_uid, worker->guest_pid));
    if (!share || *share == worker->share) continue;
    set_share(worker.get(), *share);
    (void)send_order(worker.get());
    ++changed;
  }
  log(Level::kInfo,
      "configuration read again: %zu profiles, %zu tenants; shares of %u guests changed",
      options_.policy.profiles().size(), options_.policy.tenants().size(), changed);
}

}  // namespace vgpu::server
