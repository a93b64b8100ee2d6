// Putting memory, connection and movers together.
// SPDX-License-Identifier: Apache-2.0
#include "net/fabric/ends.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "base/env.h"
#include "base/mapping.h"
#include "net/fabric/bridge.h"
#include "net/fabric/emulated_link.h"
#include "net/fabric/guest_transport.h"

namespace vgpu::net {
namespace {

constexpr int kGuestTimeoutMs = 15'000;

// An address that a listener at any address names cannot be connected to.
std::string reachable(const FabricTarget& target) {
  for (const char* any : {"0.0.0.0:", "[::]:", "*:"}) {
    if (target.address.starts_with(any) && !target.fallback_host.empty())
      return target.fallback_host + target.address.substr(target.address.rfind(':'));
  }
  return target.address;
}

}  // namespace

Result<std::unique_ptr<protocol::Transport>> connect_fabric(const FabricTarget& target,
                                                            const protocol::ChannelSizes& sizes,
                                                            int timeout_ms,
                                                            const LinkWrapper& wrapper) {
  VGPU_RETURN_IF_ERROR(sizes.check());
  Result<Mapping> memory = Mapping::map_private(sizes.total_bytes());
  if (!memory.ok()) return memory.status();
  // Neither may a child scribble on its parent's channel, nor a provider find other pages in it.
  if (::madvise(memory->data(), memory->size(), MADV_DONTFORK) != 0)
    return Status::from_errno(errno, "MADV_DONTFORK");
  const protocol::ChannelView view(memory->data(), sizes);
  view.write_identity();
  Result<std::unique_ptr<FabricLink>> link =
      FabricLink::connect(target.provider, reachable(target), target.secret,
                          {memory->bytes(), view.down_slab()}, timeout_ms);
  if (!link.ok()) return link.status();
  if ((*link)->window_bytes() != sizes.ring_bytes + sizes.up_bytes)
    return Status(StatusCode::kMalformed, "the server's window is not of the channel's size");
  const int socket_fd = (*link)->socket_fd();
  std::unique_ptr<Link> wrapped = std::move(link).value();
  if (wrapper) wrapped = wrapper(std::move(wrapped));
  if (const auto wanted = env_text("VGPU_NET_EMULATE")) {
    const Result<Emulation> emulation = parse_emulation(*wanted);
    if (!emulation.ok()) return emulation.status();
    wrapped = std::make_unique<EmulatedLink>(std::move(wrapped), *emulation);
  }
  Result<std::unique_ptr<GuestTransport>> transport =
      GuestTransport::start(std::move(memory).value(), sizes, std::move(wrapped), socket_fd);
  if (!transport.ok()) return transport.status();
  return std::unique_ptr<protocol::Transport>(std::move(transport).value());
}

Status serve_session(std::unique_ptr<FabricListener> listener, const Secret& secret,
                     const WorkerEnd& worker, int end_fd) {
  VGPU_RETURN_IF_ERROR(worker.sizes.check());
  VGPU_RETURN_IF_ERROR(protocol::check_sealed_memory(worker.memory_fd, worker.sizes.total_bytes()));
  Result<Mapping> memory = Mapping::map_shared(worker.memory_fd, worker.sizes.total_bytes());
  if (!memory.ok()) return memory.status();
  const protocol::ChannelView view(memory->data(), worker.sizes);
  VGPU_RETURN_IF_ERROR(view.check_identity());
  // All that a guest may write by itself: what it publishes and what it stages.
  const std::span<std::byte> window{view.ring(), worker.sizes.ring_bytes + worker.sizes.up_bytes};
  Result<std::unique_ptr<FabricLink>> link =
      listener->accept(secret, {memory->bytes(), window}, kGuestTimeoutMs, end_fd);
  if (!link.ok()) return link.status();
  listener.reset();
  if ((*link)->window_bytes() != worker.sizes.down_bytes)
    return Status(StatusCode::kMalformed, "the guest's window is not of the channel's size");
  Status ended;
  {
    Bridge bridge(view, link->get(), worker.connection_fd, end_fd);
    ended = bridge.serve();
  }
  (*link)->drain(kFlushNsMax);
  (*link)->shut_down();
  return ended;
}

}  // namespace vgpu::net
