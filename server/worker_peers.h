// A worker's way to those of other sessions: vgpud introduces the two, then they talk by
// themselves. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_WORKER_PEERS_H_
#define VGPU_SERVER_WORKER_PEERS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "protocol/transport/control_socket.h"
#include "server/completion.h"
#include "server/shares.h"

namespace vgpu::server {

inline constexpr uint32_t kPeerCallsMax = 16;  // served at once; the next is hung up on

// Thread-safe. Lives as long as the process: its threads may be anywhere in it.
class WorkerPeers : public Peers {
 public:
  // What this session shares; a peer that names one of these is sent it.
  Shares& shares() { return shares_; }

  // vgpud's socket, borrowed until disconnected().
  void connected(int control);
  void disconnected();
  // vgpud has said something. False: not what it may say.
  bool heard(protocol::ControlFrame frame);

  Result<UniqueFd> reach(const ShareName& name) override;

 private:
  void serve(const ShareName& name, UniqueFd connection);

  Shares shares_;
  std::mutex mutex_;
  std::condition_variable answered_;
  int control_ = -1;
  uint64_t next_request_ = 1;
  // Asked, and perhaps answered: an invalid descriptor means no.
  std::map<uint64_t, std::optional<UniqueFd>> requests_;
  std::atomic<uint32_t> serving_{0};
  CompletionPool pool_;  // last: its threads use all of the above
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_WORKER_PEERS_H_
