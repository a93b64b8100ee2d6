// Workers of an earlier vgpud: found by their doors, believed only what they may say of themselves.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "protocol/transport/transport.h"
#include "server/daemon.h"
#include "server/log.h"

namespace vgpu::server {

Result<Mapping> map_worker_page(const std::vector<UniqueFd>& descriptors) {
  if (descriptors.size() != 1) return Status(StatusCode::kMalformed, "no page");
  VGPU_RETURN_IF_ERROR(protocol::check_sealed_memory(descriptors[0].get(), sizeof(WorkerPage)));
  return Mapping::map_shared(descriptors[0].get(), kWorkerPageBytes);
}

namespace {

// What a guest uses may be more than it may have, when that was lowered.
WorkerGrants held_by(const WorkerGrants& grants, const Mapping& page) {
  const auto* figures = reinterpret_cast<const WorkerPage*>(page.data());
  WorkerGrants held = grants;
  for (uint32_t i = 0; i < std::min<uint32_t>(grants.count, protocol::kDevicesMax); ++i) {
    const uint64_t used = figures->used_bytes[i].load(std::memory_order_relaxed);
    if (used <= protocol::kMemoryAskMax) held.bytes[i] = std::max(held.bytes[i], used);
  }
  return held;
}

}  // namespace

void Daemon::look_for_workers() {
  for (FoundWorker& found : doors_.find()) {
    const int fd = found.connection.get();
    found.user = user_of_process(found.pid);
    options_.worker_users.keep(found.user);  // before any new worker gets one
    if (!loop_.add(found.connection.get(), [this, fd] { found_worker_spoke(fd); }).ok()) continue;
    found_[fd] = std::move(found);
  }
}

// A worker that waited for a guest ends with its server, so that one that speaks serves a guest.
void Daemon::found_worker_spoke(int connection) {
  FoundWorker found = std::move(found_.at(connection));
  found_.erase(connection);
  loop_.remove(connection);
  const pid_t pid = found.pid;
  Result<protocol::ControlFrame> frame = protocol::receive_frame(found.connection.get(), 0);
  if (!frame.ok()) {
    (void)unlink(found.door.c_str());  // its guest has just gone
    const bool shared = std::any_of(workers_.begin(), workers_.end(),
                                    [&](const auto& each) { return each.second->pid == pid; });
    if (!shared) options_.worker_users.give_back(found.user);
    keep_ahead();  // which may have waited for the number
    sweep_mps();
    return;
  }
  WorkerAdopt message;
  if (!read_front(frame->bytes, &message)) {
    // Its user is not given to another worker. What it holds of the device is not known.
    log(Level::kWarn,
        "worker %d is of another version; it goes on without this server, which does not count "
        "its memory: end such guests before an upgrade (vgpu drain --wait)",
        pid);
    mps_swept_ = true;  // it may be a client of a daemon that nobody claims
    return;
  }
  adopt(std::move(found), message, std::move(frame->descriptors));
  sweep_mps();
}

// The turns of an earlier vgpud have ended with it.
Status Daemon::tell_board(Worker* worker) {
  Result<TurnKeeper::Papers> papers = enter_turns(worker);
  if (!papers.ok()) return papers.status();
  PeerMessage message;
  message.kind = PeerMessageKind::kBoard;
  const int descriptors[] = {papers->board.get(), papers->bell.get()};
  return protocol::send_frame(worker->control.get(), bytes_of(message), descriptors, 0);
}

void Daemon::adopt(FoundWorker found, const WorkerAdopt& message,
                   std::vector<UniqueFd> descriptors) {
  Result<Mapping> page = map_worker_page(descriptors);
  const bool packed = message.record.mode == static_cast<uint32_t>(SharingMode::kPacked);
  const WorkerId id = packed ? --last_session_id_ : found.pid;
  if (!page.ok() || message.session == 0 || workers_.count(id) != 0) return;
  const WorkerGrants held = held_by(message.grants, *page);
  if (!ledgers_.adopt(message.session, held, get_text(message.record.tenant))) {
    log(Level::kWarn, "worker %d asked to be adopted with a grant that cannot be", found.pid);
    return;
  }
  auto worker = std::make_unique<Worker>();
  worker->id = id;
  worker->pid = found.pid;
  worker->ready = true;
  worker->control = std::move(found.connection);
  worker->process = std::move(found.process);
  worker->door = std::move(found.door);
  worker->user = found.user;
  worker->page = std::move(page).value();
  worker->session = message.session;
  worker->grants = message.grants;
  worker->held = held;
  worker->share = valid_share(message.share);
  worker->tenant = get_text(message.record.tenant);
  worker->profile = get_text(message.record.profile);
  worker->ask = message.record.ask;
  worker->set = message.record.set;
  worker->limits = message.record.limits;
  worker->exclusive = message.record.exclusive != 0;
  if (message.record.mode < kSharingModes)
    worker->mode = static_cast<SharingMode>(message.record.mode);
  worker->mps_number = message.record.mps_number;
  worker->memory_most = message.record.memory_most;
  if (worker->mode == SharingMode::kMps) {
    if (const Status known = adopt_mps(*worker); !known.ok())
      log(Level::kWarn, "worker %d: %s", worker->pid, known.to_string().c_str());
  }
  worker->started_ms = monotonic_ns() / 1'000'000 - message.uptime_ms;
  worker->guest_pid = message.guest_pid;
  worker->guest_uid = message.guest_uid;
  worker->executable = get_text(message.executable);
  worker->label = get_text(message.label);
  worker->remote = get_text(message.remote);
  if (Status told = tell_board(worker.get()); !told.ok())
    log(Level::kWarn, "worker %d takes no turns: %s", worker->pid, told.to_string().c_str());
  log(Level::kInfo, "adopted worker %d with guest %d (%s), %s", worker->pid, worker->guest_pid,
      worker->executable.c_str(), size_text(sum_of(worker->grants)).c_str());
  (void)loop_.add(worker->process.get(), [this, id] { worker_ended(id); });
  (void)loop_.add(worker->control.get(), [this, id] { peer_asked(id); });
  workers_[id] = std::move(worker);
  keep_ahead();
}

}  // namespace vgpu::server
