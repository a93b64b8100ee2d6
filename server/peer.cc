// Access to memory of other devices, by the contexts that the guest names and by whole devices.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <vector>

#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

// The driver's contexts that `user` gains or loses access to with `peer`: its own, and the primary
// one of its device, where memory that is lent lies, whichever the guest means. That one goes with
// the first and the last that `user` has of the device.
std::vector<CUcontext> owners(const Context& user, const Context& peer, CUcontext primary) {
  std::vector<CUcontext> found;
  if (peer.handle != primary) found.push_back(peer.handle);
  const bool others = std::any_of(
      user.peers.begin(), user.peers.end(),
      [&peer](const Context* each) { return each != &peer && each->device == peer.device; });
  if (!others && primary != nullptr) found.push_back(primary);
  return found;
}

// With the context current. Memory that the driver has placed (arrays, variables, what is lent)
// goes by contexts; what the guest maps goes by devices. All of them or none.
CUresult switch_access(const DriverTable& driver, std::span<const CUcontext> peers, bool enable) {
  for (size_t i = 0; i < peers.size(); ++i) {
    const CUresult result = enable ? driver.cuCtxEnablePeerAccess(peers[i], 0)
                                   : driver.cuCtxDisablePeerAccess(peers[i]);
    if (result == CUDA_SUCCESS) continue;
    if (enable) (void)switch_access(driver, peers.first(i), false);
    return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Session::set_peer(Context* context, Context* peer, bool enable) {
  if (is_packed() || driver().cuCtxEnablePeerAccess == nullptr ||
      driver().cuCtxDisablePeerAccess == nullptr)
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const auto known = std::find(context->peers.begin(), context->peers.end(), peer);
  if (enable == (known != context->peers.end()))
    return enable ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  DeviceMemory& memory = *memory_->on(peer->device);
  const CUdevice number = config_.devices->at(context->device)->number();
  CUresult result = enable ? memory.share(number, true) : CUDA_SUCCESS;
  if (result != CUDA_SUCCESS) return result;
  result = driver().cuCtxSetCurrent(context->handle);
  const CUcontext primary = config_.devices->at(peer->device)->primary();
  if (result == CUDA_SUCCESS)
    result = switch_access(driver(), owners(*context, *peer, primary), enable);
  (void)driver().cuCtxSetCurrent(bound_ != nullptr ? bound_->handle : home());
  if (enable && result == CUDA_SUCCESS) {
    context->peers.push_back(peer);
  } else if (!enable) {
    context->peers.erase(known);
  }
  if (!enable || result != CUDA_SUCCESS) (void)memory.share(number, false);
  return result;
}

// Memory that the guest has mapped stays accessible to devices that had access: what runs may still
// use it.
Session::PeerPairs Session::drop_peers(Context* context) {
  PeerPairs pairs;
  const auto add = [&](const Context& user, const Context& owner) {
    const CUcontext primary = config_.devices->at(owner.device)->primary();
    for (const CUcontext each : owners(user, owner, primary)) pairs.emplace_back(user.handle, each);
  };
  while (!context->peers.empty()) {
    add(*context, *context->peers.back());
    context->peers.pop_back();
  }
  for (Context& each : contexts_) {
    const auto found = std::find(each.peers.begin(), each.peers.end(), context);
    if (found == each.peers.end()) continue;
    add(each, *context);
    each.peers.erase(found);
  }
  return pairs;
}

bool handle_PeerAccess(Session& session, const wire::PeerAccessArgs& args, const Record& record) {
  Context* context = session.find_context(args.context);
  Context* peer = session.find_context(args.peer);
  if (context == nullptr) return session.malformed(record, "unknown context");
  // Another thread of the guest may have ended it meanwhile.
  if (peer == nullptr) return session.complete(record, CUDA_ERROR_INVALID_CONTEXT, nullptr, 0);
  if (context->device == peer->device) return session.malformed(record, "no other device");
  return session.complete(record, session.set_peer(context, peer, args.enable != 0), nullptr, 0);
}

}  // namespace vgpu::server
