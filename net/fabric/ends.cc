// The guest's end: memory, connections one after the other, and the transport over them.
// SPDX-License-Identifier: Apache-2.0
#include "net/fabric/ends.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "base/env.h"
#include "base/log.h"
#include "base/mapping.h"
#include "net/fabric/emulated_link.h"
#include "net/fabric/guest_transport.h"
#include "protocol/ring/doorbell.h"

namespace vgpu::net {
namespace {

// An address that a listener at any address names cannot be connected to.
std::string reachable(const FabricTarget& target) {
  for (const char* any : {"0.0.0.0:", "[::]:", "*:"}) {
    if (target.address.starts_with(any) && !target.fallback_host.empty())
      return target.fallback_host + target.address.substr(target.address.rfind(':'));
  }
  return target.address;
}

// Connects one after the other. Lives as long as the transport whose memory it names.
class Connector {
 public:
  Connector(FabricTarget target, const protocol::ChannelSizes& sizes, const EndMemory& memory,
            std::unique_ptr<Resumer> resumer, LinkWrapper wrapper)
      : target_(std::move(target)),
        sizes_(sizes),
        memory_(memory),
        resumer_(std::move(resumer)),
        wrapper_(std::move(wrapper)) {}

  bool resumes() const { return resumer_ != nullptr; }

  Result<Connected> connect(const Positions& mine, int timeout_ms, const std::atomic<bool>* stop) {
    Result<std::unique_ptr<FabricLink>> link =
        FabricLink::connect(target_.provider, reachable(target_), {target_.secret, epoch_, mine},
                            memory_, timeout_ms, stop);
    if (!link.ok()) return link.status();
    if ((*link)->window_bytes() != sizes_.ring_bytes + sizes_.up_bytes)
      return Status(StatusCode::kMalformed, "the server's window is not of the channel's size");
    if (resumer_ != nullptr) (*link)->mind_path();
    Connected connected{nullptr, (*link)->peer_positions(), (*link)->socket_fd()};
    connected.link = std::move(link).value();
    if (wrapper_) connected.link = wrapper_(std::move(connected.link));
    if (const auto wanted = env_text("VGPU_NET_EMULATE")) {
      Result<Emulation> emulation = parse_emulation(*wanted);
      if (!emulation.ok()) return emulation.status();
      emulation->seed += epoch_;  // of each connection another
      connected.link = std::make_unique<EmulatedLink>(std::move(connected.link), *emulation);
    }
    return connected;
  }

  // As Reconnect.
  Result<Connected> again(const Positions& mine, const std::atomic<bool>& stop) {
    const int64_t end = protocol::now_ns() + int64_t{resumer_->grace_ms()} * 1'000'000;
    ++epoch_;
    for (int64_t now = protocol::now_ns(); now < end && !stop.load(std::memory_order_acquire);
         now = protocol::now_ns()) {
      const auto left_ms = static_cast<int>((end - now) / 1'000'000 + 1);
      Result<FabricTarget> target = resumer_->another(epoch_, left_ms, stop);
      if (!target.ok() && target.status().code() == StatusCode::kTimedOut) continue;
      if (!target.ok()) return target.status();
      target_ = std::move(target).value();
      Result<Connected> made = connect(mine, std::min(left_ms, kReconnectTimeoutMs), &stop);
      if (made.ok()) return made;
      VGPU_LOG_DEBUG("network: %s", made.status().text().c_str());
      ++epoch_;  // whether the gate has taken that one is not known here
      const timespec pause{0, int64_t{kReconnectPauseMs} * 1'000'000};
      (void)::nanosleep(&pause, nullptr);
    }
    return Status(StatusCode::kTimedOut, "the connection is cut, and there was no other in time");
  }

 private:
  FabricTarget target_;
  const protocol::ChannelSizes sizes_;
  const EndMemory memory_;
  std::unique_ptr<Resumer> resumer_;
  LinkWrapper wrapper_;
  uint32_t epoch_ = 1;
};

}  // namespace

Result<std::unique_ptr<protocol::Transport>> connect_fabric(const FabricTarget& target,
                                                            const protocol::ChannelSizes& sizes,
                                                            int timeout_ms,
                                                            std::unique_ptr<Resumer> resumer,
                                                            const LinkWrapper& wrapper) {
  VGPU_RETURN_IF_ERROR(sizes.check());
  Result<Mapping> memory = Mapping::map_private(sizes.total_bytes());
  if (!memory.ok()) return memory.status();
  // Neither may a child scribble on its parent's channel, nor a provider find other pages in it.
  if (::madvise(memory->data(), memory->size(), MADV_DONTFORK) != 0)
    return Status::from_errno(errno, "MADV_DONTFORK");
  const protocol::ChannelView view(memory->data(), sizes);
  view.write_identity();
  const EndMemory ends{memory->bytes(), view.down_slab()};
  auto connector = std::make_shared<Connector>(target, sizes, ends, std::move(resumer), wrapper);
  Result<Connected> first = connector->connect(Positions{}, timeout_ms, nullptr);
  if (!first.ok()) return first.status();
  Reconnect reconnect;
  if (connector->resumes()) {
    reconnect = [connector](const Positions& mine, const std::atomic<bool>& stop) {
      return connector->again(mine, stop);
    };
  }
  Result<std::unique_ptr<GuestTransport>> transport = GuestTransport::start(
      std::move(memory).value(), sizes, std::move(first).value(), std::move(reconnect));
  if (!transport.ok()) return transport.status();
  return std::unique_ptr<protocol::Transport>(std::move(transport).value());
}

}  // namespace vgpu::net
