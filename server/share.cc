// What other sessions have shared: fetched by a helper, kept until the guest uses it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "server/log.h"
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

Result<Fetched> fetch(Session& session, const ShareName& name) {
  if (name.session == session.config().number) {
    const std::shared_ptr<const Share> share = session.shares().find(name);
    if (share == nullptr) return Status(StatusCode::kNotFound, "nothing of that name");
    return fetch_here(*share);
  }
  Peers* peers = session.config().peers;
  if (peers == nullptr) return Status(StatusCode::kNotFound, "no other sessions");
  Result<UniqueFd> peer = peers->reach(name);
  if (!peer.ok()) return peer.status();
  Result<Fetched> fetched = receive_share(peer->get());
  if (fetched.ok() && fetched->info.kind == ShareKind::kEvent)
    fetched->link = std::move(peer).value();
  return fetched;
}

}  // namespace

bool FetchedTable::add(uint64_t number, std::unique_ptr<Fetched> fetched) {
  std::lock_guard lock(mutex_);
  return by_number_.size() < kFetchedMax && by_number_.insert({number, std::move(fetched)}).second;
}

std::unique_ptr<Fetched> FetchedTable::take(uint64_t number) {
  std::lock_guard lock(mutex_);
  const auto found = by_number_.find(number);
  if (found == by_number_.end()) return nullptr;
  std::unique_ptr<Fetched> fetched = std::move(found->second);
  by_number_.erase(found);
  return fetched;
}

bool Session::keep_fetched(const Record& record, uint64_t number,
                           std::unique_ptr<Fetched> fetched) {
  (void)fetched_.add(number, std::move(fetched));
  return complete(record, CUDA_ERROR_OUT_OF_MEMORY, nullptr, 0);
}

// The other worker may take its time, so a helper asks it. The guest hears nothing of why: not even
// whether such a session exists.
bool handle_ShareFetch(Session& session, const wire::ShareFetchArgs& args, const Record& record) {
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  if (!session.config().shares_memory)
    return session.complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
  session.pool().post([&session, args, reply = record.reply()] {
    Result<Fetched> fetched =
        fetch(session, ShareName{args.session, args.secret_low, args.secret_high});
    wire::ShareFetchReply answer;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (fetched.ok()) {
      answer.bytes = fetched->info.bytes;
      answer.offset = fetched->info.offset;
      answer.size = fetched->info.size;
      answer.kind = static_cast<uint32_t>(fetched->info.kind);
      const int device = fetched->info.kind == ShareKind::kEvent
                             ? 0
                             : session.config().devices->find(fetched->info.device);
      answer.device = static_cast<uint32_t>(std::max(device, 0));
      if (device < 0) {
        result = CUDA_ERROR_INVALID_DEVICE;
      } else {
        const bool kept =
            session.fetched().add(args.number, std::make_unique<Fetched>(std::move(*fetched)));
        result = kept ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
      }
    } else {
      log(Level::kDebug, "what another session shares cannot be had: %s",
          fetched.status().to_string().c_str());
    }
    session.channel().replies().complete_with(reply, result, answer);
  });
  return true;
}

bool handle_ShareDrop(Session& session, const wire::ShareDropArgs& args, const Record& record) {
  if (session.fetched().take(args.number) == nullptr)
    return session.malformed(record, "nothing fetched under that number");
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

}  // namespace vgpu::server
