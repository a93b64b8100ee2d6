// Other devices and copies between contexts. Rows about a second device say what is expected where
// there is none. SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr CUresult kUnsupported = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
constexpr CUresult kNotEnabled = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
constexpr CUresult kAlready = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
constexpr auto kAccess = CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
constexpr auto kNoFact = static_cast<CUdevice_P2PAttribute>(77);

// What `run(w, peer)` gives, with the primary context of a second device whose memory can be
// accessed; `without` where there is no such device.
template <typename Run>
CUresult with_peer(World& w, CUresult without, Run run) {
  int count = 0, can = 0;
  CUcontext peer = nullptr;
  if (w.cu->cuDeviceGetCount(&count) != CUDA_SUCCESS || count < 2 ||
      w.cu->cuDeviceCanAccessPeer(&can, 0, 1) != CUDA_SUCCESS || can == 0) {
    return without;
  }
  if (CUresult r = w.cu->cuDevicePrimaryCtxRetain(&peer, 1); r != CUDA_SUCCESS) return r;
  const CUresult result = run(peer);
  const CUresult released = w.cu->cuDevicePrimaryCtxRelease_v2(1);
  return released != CUDA_SUCCESS ? released : result;
}

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuCtxEnablePeerAccess(nullptr, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuCtxDisablePeerAccess(nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuMemcpyPeer(1, nullptr, 1, nullptr, 4)),
    ROW(kNoContext, kContext, kDocumented, cuCtxEnablePeerAccess(nullptr, 0)),
    ROW(kNoContext, kContext, kDocumented, cuCtxDisablePeerAccess(nullptr)),

    ROW(kReady, kContext, kDocumented, cuCtxEnablePeerAccess(nullptr, 0)),
    ROW(kReady, kContext, kDocumented, cuCtxEnablePeerAccess(w.garbage<CUcontext>(), 0)),
    ROW(kReady, kContext, kDocumented, cuCtxEnablePeerAccess(w.destroyed, 0)),
    ROW(kReady, kContext, kDocumented, cuCtxEnablePeerAccess(w.context, 0)),
    ROW(kReady, kValue, kDocumented, cuCtxEnablePeerAccess(w.other, 1)),
    ROW(kReady, kUnsupported, kDocumented, cuCtxEnablePeerAccess(w.other, 0)),
    ROW(kReady, kContext, kDocumented, cuCtxDisablePeerAccess(w.garbage<CUcontext>())),
    ROW(kReady, kContext, kDocumented, cuCtxDisablePeerAccess(w.destroyed)),
    ROW(kReady, kNotEnabled, kDocumented, cuCtxDisablePeerAccess(w.other)),
    ROW(kReady, kContext, kDocumented,
        cuMemcpyPeer(w.memory, w.destroyed, w.memory + 64, w.context, 4)),
    ROW(kReady, kContext, kDocumented,
        cuMemcpyPeer(w.memory, w.context, w.memory + 64, w.garbage<CUcontext>(), 4)),
    ROW(kReady, kValue, kDocumented, cuMemcpyPeer(w.freed, w.context, w.memory, w.context, 4)),
    ROW(kReady, kValue, kDocumented,
        cuMemcpyPeer(w.memory, w.context, w.memory + 64, w.other, World::kBytes)),
    ROW(kReady, kOk, kDocumented, cuMemcpyPeer(w.memory, w.context, w.memory + 64, w.other, 64)),
    ROW(kReady, kContext, kDocumented,
        cuMemcpyPeerAsync(w.memory, w.destroyed, w.memory + 64, w.context, 4, w.stream)),
    ROW(kReady, kHandle, kDocumented,
        cuMemcpyPeerAsync(w.memory, w.context, w.memory + 64, w.context, 4, w.stale_stream)),
    ROW(kReady, kValue, kDocumented, cuMemcpy3DPeer(nullptr)),
    ROW(kReady, kValue, kDocumented, cuMemcpy3DPeerAsync(nullptr, w.stream)),
    ROW(kFault, kIllegal, kDocumented, cuCtxEnablePeerAccess(w.other, 0)),
    ROW(kFault, kIllegal, kDocumented, cuMemcpyPeer(w.memory, w.context, w.memory, w.other, 4)),

    STEPS(kReady, kOk, kDocumented, "access is enabled and disabled",
          {
            return with_peer(w, kOk, [&](CUcontext peer) {
              const CUresult result = w.cu->cuCtxEnablePeerAccess(peer, 0);
              const CUresult ended = w.cu->cuCtxDisablePeerAccess(peer);
              return result != CUDA_SUCCESS ? result : ended;
            });
          }),
    STEPS(kReady, kAlready, kDocumented, "access is enabled twice",
          {
            return with_peer(w, kAlready, [&](CUcontext peer) {
              (void)w.cu->cuCtxEnablePeerAccess(peer, 0);
              const CUresult result = w.cu->cuCtxEnablePeerAccess(peer, 0);
              (void)w.cu->cuCtxDisablePeerAccess(peer);
              return result;
            });
          }),
    STEPS(kReady, kNotEnabled, kDocumented, "access is disabled twice",
          {
            return with_peer(w, kNotEnabled, [&](CUcontext peer) {
              (void)w.cu->cuCtxEnablePeerAccess(peer, 0);
              (void)w.cu->cuCtxDisablePeerAccess(peer);
              return w.cu->cuCtxDisablePeerAccess(peer);
            });
          }),
    STEPS(kReady, kNotEnabled, kOurs, "access ends with the peer's context",
          {
            return with_peer(w, kNotEnabled, [&](CUcontext peer) {
              (void)w.cu->cuCtxEnablePeerAccess(peer, 0);
              (void)w.cu->cuDevicePrimaryCtxReset_v2(1);
              (void)w.cu->cuDevicePrimaryCtxRetain(&peer, 1);
              return w.cu->cuCtxDisablePeerAccess(peer);
            });
          }),
    STEPS(kReady, kContext, kDocumented, "access to a context that is not retained",
          {
            CUcontext lost = nullptr;
            const CUresult known = with_peer(w, kContext, [&](CUcontext peer) {
              lost = peer;
              return CUDA_SUCCESS;
            });
            return lost == nullptr ? known : w.cu->cuCtxEnablePeerAccess(lost, 0);
          }),
    STEPS(kReady, kValue, kDocumented, "a fact of two devices that does not exist",
          {
            return with_peer(w, kValue, [&](CUcontext) {
              return w.cu->cuDeviceGetP2PAttribute(&w.i, kNoFact, 0, 1);
            });
          }),
    STEPS(kReady, kValue, kDocumented, "a fact of two devices without a place for it",
          {
            return with_peer(w, kValue, [&](CUcontext) {
              return w.cu->cuDeviceGetP2PAttribute(nullptr, kAccess, 0, 1);
            });
          }),
    STEPS(kReady, kValue, kDocumented, "a pool of another device made current",
          {
            return with_peer(w, kValue, [&](CUcontext) {
              CUmemoryPool pool = nullptr;
              if (CUresult r = w.cu->cuDeviceGetDefaultMemPool(&pool, 1); r != CUDA_SUCCESS)
                return r;
              return w.cu->cuDeviceSetMemPool(0, pool);
            });
          }),
    STEPS(kReady, kHandle, kDocumented, "an event of another device recorded here",
          {
            return with_peer(w, kHandle, [&](CUcontext peer) {
              CUevent event = nullptr;
              CUresult result = w.cu->cuCtxPushCurrent_v2(peer);
              if (result == CUDA_SUCCESS) result = w.cu->cuEventCreate(&event, 0);
              (void)w.cu->cuCtxPopCurrent_v2(nullptr);
              return result == CUDA_SUCCESS ? w.cu->cuEventRecord(event, w.stream) : result;
            });
          }),
};

}  // namespace

const std::span<const Row> kPeerRows = kRows;

}  // namespace vgpu::fidelity
