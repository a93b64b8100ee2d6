// What other sessions have shared: fetched by a helper, kept until the guest uses it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "server/log.h"
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

// Memory of others' counts from before it is here until nobody has it: a guest that fetches and
// never maps holds it all the same.
Status admit(Session& session, Fetched* fetched) {
  if (fetched->info.kind == ShareKind::kEvent) return ok_status();
  const int device = session.config().devices->find(fetched->info.device);
  if (device < 0) return Status(StatusCode::kUnavailable, "of a device that the guest has not");
  if (fetched->info.kind == ShareKind::kPool) return ok_status();
  auto charge =
      session.memory().on(static_cast<uint32_t>(device))->charge_shared(fetched->info.bytes);
  if (charge == nullptr) return Status(StatusCode::kResourceExhausted, "more than the quota");
  fetched->charges.push_back(std::move(charge));
  return ok_status();
}

// *info says what it is as soon as that is known.
Result<Fetched> fetch(Session& session, const ShareName& name, ShareInfo* info) {
  if (name.session == session.config().number) {
    const std::shared_ptr<const Share> share = session.shares().find(name);
    if (share == nullptr) return Status(StatusCode::kNotFound, "nothing of that name");
    Result<Fetched> own = fetch_here(*share);
    if (own.ok()) *info = own->info;
    return own;
  }
  Peers* peers = session.config().peers;
  if (peers == nullptr) return Status(StatusCode::kNotFound, "no other sessions");
  Result<UniqueFd> peer = peers->reach(name);
  if (!peer.ok()) return peer.status();
  Result<Fetched> fetched = receive_share(peer->get(), session.driver(), [&](Fetched* arriving) {
    *info = arriving->info;
    return admit(session, arriving);
  });
  if (fetched.ok() && fetched->info.kind == ShareKind::kEvent)
    fetched->link = std::move(peer).value();
  return fetched;
}

CUresult result_of(const Status& status) {
  if (status.ok()) return CUDA_SUCCESS;
  if (status.code() == StatusCode::kResourceExhausted) return CUDA_ERROR_OUT_OF_MEMORY;
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

bool FetchedTable::add(uint64_t number, std::shared_ptr<Fetched> fetched) {
  std::lock_guard lock(mutex_);
  return by_number_.size() < kFetchedMax && by_number_.insert({number, std::move(fetched)}).second;
}

std::shared_ptr<Fetched> FetchedTable::find(uint64_t number) const {
  std::lock_guard lock(mutex_);
  const auto found = by_number_.find(number);
  return found == by_number_.end() ? nullptr : found->second;
}

bool FetchedTable::drop(uint64_t number) {
  std::shared_ptr<Fetched> gone;  // without our lock
  std::lock_guard lock(mutex_);
  const auto found = by_number_.find(number);
  if (found == by_number_.end()) return false;
  gone = std::move(found->second);
  by_number_.erase(found);
  return true;
}

// The other worker may take its time, so a helper asks it. The guest hears nothing of why: not even
// whether such a session exists.
bool handle_ShareFetch(Session& session, const wire::ShareFetchArgs& args, const Record& record) {
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  if (!session.config().shares_memory)
    return session.complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
  session.pool().post([&session, args, reply = record.reply()] {
    ShareInfo info;
    Result<Fetched> fetched =
        fetch(session, ShareName{args.session, args.secret_low, args.secret_high}, &info);
    const int device =
        info.kind == ShareKind::kEvent ? 0 : session.config().devices->find(info.device);
    wire::ShareFetchReply answer;
    answer.bytes = info.bytes;
    answer.offset = info.offset;
    answer.size = info.size;
    answer.kind = static_cast<uint32_t>(info.kind);
    answer.device = static_cast<uint32_t>(std::max(device, 0));
    CUresult result = result_of(fetched.ok() ? ok_status() : fetched.status());
    if (!fetched.ok()) {
      log(Level::kDebug, "what another session shares cannot be had: %s",
          fetched.status().to_string().c_str());
      if (info.magic != 0 && device < 0) result = CUDA_ERROR_INVALID_DEVICE;
    } else if (!session.fetched().add(args.number,
                                      std::make_shared<Fetched>(std::move(*fetched)))) {
      result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    session.channel().replies().complete_with(reply, result, answer);
  });
  return true;
}

bool handle_ShareDrop(Session& session, const wire::ShareDropArgs& args, const Record& record) {
  if (!session.fetched().drop(args.number))
    return session.malformed(record, "nothing fetched under that number");
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

}  // namespace vgpu::server
