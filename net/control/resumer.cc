// Asking for data connections over the lifeline.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/resumer.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "protocol/session/messages.h"
#include "protocol/transport/control_socket.h"

namespace vgpu::net {
namespace {

constexpr int kStepMs = 50;  // how late a stop is seen

ino_t inode_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? info.st_ino : 0;
}

class LifelineResumer final : public Resumer {
 public:
  LifelineResumer(UniqueFd lifeline, FabricTarget first, uint32_t grace_ms)
      : lifeline_(lifeline.release()),
        inode_(inode_of(lifeline_)),
        target_(std::move(first)),
        grace_ms_(grace_ms) {}

  int grace_ms() const override { return static_cast<int>(grace_ms_); }

  Result<FabricTarget> another(uint32_t epoch, int timeout_ms,
                               const std::atomic<bool>& stop) override {
    const Status over(StatusCode::kUnavailable, "the session is over");
    if (inode_of(lifeline_) != inode_) return over;  // the program has closed it
    if (asked_ != epoch) {
      const protocol::NetResume wish{0, epoch};
      if (!protocol::send_message(lifeline_, wish).ok()) return over;
      asked_ = epoch;
    }
    const uint64_t end = monotonic_ns() + static_cast<uint64_t>(timeout_ms) * 1'000'000;
    while (monotonic_ns() < end && !stop.load(std::memory_order_acquire)) {
      auto received = protocol::receive_message(lifeline_, kStepMs);
      if (!received.ok() && received.status().code() == StatusCode::kTimedOut) continue;
      if (!received.ok()) return over;
      const auto* resumed = std::get_if<protocol::NetResumed>(&received->message);
      if (resumed == nullptr || resumed->epoch != epoch) continue;  // of an earlier question
      target_.address.assign(resumed->address.begin(), resumed->address.end());
      target_.secret = resumed->secret;
      return target_;
    }
    return Status(StatusCode::kTimedOut, "the server has not answered yet");
  }

 private:
  const int lifeline_;
  const ino_t inode_;
  FabricTarget target_;
  const uint32_t grace_ms_;
  uint32_t asked_ = 0;
};

}  // namespace

std::unique_ptr<Resumer> make_resumer(UniqueFd lifeline, FabricTarget first, uint32_t grace_ms) {
  return std::make_unique<LifelineResumer>(std::move(lifeline), std::move(first), grace_ms);
}

}  // namespace vgpu::net
