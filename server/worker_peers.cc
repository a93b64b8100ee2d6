// Introductions by vgpud, on the worker's side.
// SPDX-License-Identifier: Apache-2.0
#include "server/worker_peers.h"

#include <chrono>
#include <memory>

#include "server/log.h"
#include "server/peer_event.h"
#include "server/worker_link.h"

namespace vgpu::server {

void WorkerPeers::connected(int control) {
  std::lock_guard lock(mutex_);
  control_ = control;
}

void WorkerPeers::disconnected() {
  std::lock_guard lock(mutex_);
  control_ = -1;
  for (auto& [number, answer] : requests_) {
    if (!answer.has_value()) answer.emplace();
  }
  answered_.notify_all();
}

bool WorkerPeers::heard(protocol::ControlFrame frame) {
  PeerMessage message;
  if (!read_front(frame.bytes, &message) || frame.descriptors.size() > 1) return false;
  UniqueFd connection;
  if (!frame.descriptors.empty()) connection = std::move(frame.descriptors[0]);
  if (message.kind == PeerMessageKind::kCall && connection.valid()) {
    serve({message.session, message.secret_low, message.secret_high}, std::move(connection));
    return true;
  }
  if (message.kind != PeerMessageKind::kAnswer) return false;
  std::lock_guard lock(mutex_);
  const auto asked = requests_.find(message.request);
  if (asked == requests_.end()) return true;  // nobody waits any more
  asked->second.emplace(std::move(connection));
  answered_.notify_all();
  return true;
}

Result<UniqueFd> WorkerPeers::reach(const ShareName& name) {
  std::unique_lock lock(mutex_);
  if (control_ < 0) return Status(StatusCode::kUnavailable, "there is no vgpud just now");
  PeerMessage message;
  message.kind = PeerMessageKind::kAsk;
  message.request = next_request_++;
  message.session = name.session;
  message.secret_low = name.secret_low;
  message.secret_high = name.secret_high;
  VGPU_RETURN_IF_ERROR(protocol::send_frame(control_, bytes_of(message)));
  auto& answer = requests_[message.request];
  answered_.wait_for(lock, std::chrono::milliseconds(kShareTimeoutMs),
                     [&answer] { return answer.has_value(); });
  UniqueFd connection;
  if (answer.has_value()) connection = std::move(*answer);
  requests_.erase(message.request);
  if (!connection.valid()) return Status(StatusCode::kNotFound, "no such session of this user");
  return connection;
}

// The driver may take its time to make files of the memory.
void WorkerPeers::serve(const ShareName& name, UniqueFd connection) {
  const std::shared_ptr<const Share> share = shares_.find(name);
  if (share == nullptr) {
    log(Level::kDebug, "another session asked for something that is not shared");
    return;
  }
  // relaxed: only a bound.
  if (serving_.fetch_add(1, std::memory_order_relaxed) >= kPeerCallsMax) {
    serving_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  pool_.post([this, share, socket = std::make_shared<UniqueFd>(std::move(connection))] {
    const std::shared_ptr<PeerEvent>& event = share->event;
    const uint32_t participant = event == nullptr ? 0 : event->next_participant();
    if (Status sent = send_share(socket->get(), *share, participant); !sent.ok()) {
      log(Level::kWarn, "sharing with another session: %s", sent.to_string().c_str());
    } else if (event != nullptr) {
      // When that session is gone, nobody waits for what it recorded.
      link_watch().add(std::move(*socket), [weak = std::weak_ptr<PeerEvent>(event), participant] {
        if (const std::shared_ptr<PeerEvent> alive = weak.lock()) alive->page()->gone(participant);
      });
    }
    serving_.fetch_sub(1, std::memory_order_relaxed);
  });
}

}  // namespace vgpu::server
