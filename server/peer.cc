// Access to memory of other devices, by the contexts that the guest names and by whole devices.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

// With the context current. Memory that the driver has placed (arrays, variables, what is lent)
// goes by contexts; what the guest maps goes by devices.
CUresult switch_access(const DriverTable& driver, CUcontext peer, bool enable) {
  if (enable) return driver.cuCtxEnablePeerAccess(peer, 0);
  return driver.cuCtxDisablePeerAccess(peer);
}

}  // namespace

CUresult Session::set_peer(Context* context, Context* peer, bool enable) {
  if (driver().cuCtxEnablePeerAccess == nullptr || driver().cuCtxDisablePeerAccess == nullptr)
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const auto known = std::find(context->peers.begin(), context->peers.end(), peer);
  if (enable == (known != context->peers.end()))
    return enable ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  DeviceMemory& memory = *memory_->on(peer->device);
  const CUdevice number = config_.devices->at(context->device)->number();
  CUresult result = enable ? memory.share(number, true) : CUDA_SUCCESS;
  if (result != CUDA_SUCCESS) return result;
  result = driver().cuCtxSetCurrent(context->handle);
  if (result == CUDA_SUCCESS) result = switch_access(driver(), peer->handle, enable);
  // Memory that is lent belongs to the primary context, whichever the guest means.
  const CUcontext primary = config_.devices->at(peer->device)->primary();
  const bool others = std::any_of(
      context->peers.begin(), context->peers.end(),
      [peer](const Context* each) { return each != peer && each->device == peer->device; });
  if (result == CUDA_SUCCESS && primary != nullptr && primary != peer->handle && !others)
    (void)switch_access(driver(), primary, enable);
  (void)driver().cuCtxSetCurrent(bound_ != nullptr ? bound_->handle : home());
  if (enable && result == CUDA_SUCCESS) {
    context->peers.push_back(peer);
  } else if (!enable) {
    context->peers.erase(known);
  }
  if (enable != (result == CUDA_SUCCESS)) (void)memory.share(number, false);
  return result;
}

// Memory that the guest has mapped stays accessible to devices that had access: what runs may still
// use it.
Session::PeerPairs Session::drop_peers(Context* context) {
  PeerPairs pairs;
  const auto add = [&](const Context& user, const Context& owner) {
    pairs.emplace_back(user.handle, owner.handle);
    const CUcontext primary = config_.devices->at(owner.device)->primary();
    const bool others = std::any_of(user.peers.begin(), user.peers.end(), [&](const Context* each) {
      return each != &owner && each->device == owner.device;
    });
    if (primary != nullptr && primary != owner.handle && !others)
      pairs.emplace_back(user.handle, primary);
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
