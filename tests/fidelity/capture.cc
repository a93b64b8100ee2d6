// Stream capture: what cannot begin, end or be asked.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr auto kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL, kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
constexpr auto kNoMode = static_cast<CUstreamCaptureMode>(7);
constexpr CUresult kIllegalState = CUDA_ERROR_ILLEGAL_STATE;
constexpr CUresult kUnsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

CUgraph* graph_out(World& w) { return reinterpret_cast<CUgraph*>(&w.v); }
CUstreamCaptureStatus* status_out(World& w) {
  return reinterpret_cast<CUstreamCaptureStatus*>(&w.u);
}

// Calls `use` while the world's stream is captured.
template <typename Use>
CUresult captured(World& w, Use&& use) {
  CUresult result = w.cu->cuStreamBeginCapture_v2(w.stream, kRelaxed);
  if (result != kOk) return result;
  result = use();
  CUgraph graph = nullptr;
  (void)w.cu->cuStreamEndCapture(w.stream, &graph);
  if (graph != nullptr) (void)w.cu->cuGraphDestroy(graph);
  return result;
}
#define CAPTURED(want, source, name, call) \
  STEPS(kReady, want, source, name, { return captured(w, [&w] { return w.cu->call; }); })

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuStreamBeginCapture_v2(nullptr, kGlobal)),
    ROW(kFresh, kNotInit, kDocumented, cuStreamEndCapture(nullptr, graph_out(w))),
    ROW(kFresh, kNotInit, kDocumented, cuStreamIsCapturing(nullptr, status_out(w))),
    ROW(kNoContext, kContext, kDocumented, cuStreamBeginCapture_v2(nullptr, kGlobal)),
    ROW(kNoContext, kContext, kDocumented, cuStreamEndCapture(nullptr, graph_out(w))),
    ROW(kNoContext, kContext, kDocumented, cuStreamIsCapturing(nullptr, status_out(w))),
    ROW(kReady, kUnsupported, kDocumented, cuStreamBeginCapture_v2(CU_STREAM_LEGACY, kGlobal)),
    ROW(kReady, kUnsupported, kDocumented, cuStreamBeginCapture_v2(nullptr, kGlobal)),
    ROW(kReady, kValue, kDocumented, cuStreamBeginCapture_v2(w.stream, kNoMode)),
    ROW(kReady, kHandle, kOurs, cuStreamBeginCapture_v2(w.stale_stream, kGlobal)),
    ROW(kReady, kHandle, kOurs, cuStreamBeginCapture_v2(World::garbage<CUstream>(), kGlobal)),
    ROW(kReady, kValue, kOurs,
        cuStreamBeginCaptureToGraph(w.stream, World::garbage<CUgraph>(), nullptr, nullptr, 0,
                                    kGlobal)),
    ROW(kReady, kIllegalState, kOurs, cuStreamEndCapture(w.stream, graph_out(w))),
    ROW(kReady, kValue, kDocumented, cuStreamEndCapture(w.stream, nullptr)),
    ROW(kReady, kHandle, kOurs, cuStreamEndCapture(w.stale_stream, graph_out(w))),
    ROW(kReady, kValue, kDocumented, cuStreamIsCapturing(w.stream, nullptr)),
    ROW(kReady, kHandle, kOurs, cuStreamIsCapturing(w.stale_stream, status_out(w))),
    ROW(kReady, kValue, kDocumented, cuStreamGetCaptureInfo(w.stream, nullptr, nullptr)),
    ROW(kReady, kIllegalState, kDocumented,
        cuStreamUpdateCaptureDependencies(w.stream, nullptr, 0, 0)),
    ROW(kReady, kValue, kDocumented, cuStreamUpdateCaptureDependencies(w.stream, nullptr, 0, 9)),
    ROW(kReady, kValue, kDocumented, cuThreadExchangeStreamCaptureMode(nullptr)),
    CAPTURED(kIllegalState, kDocumented, "cuStreamBeginCapture of a captured stream",
             cuStreamBeginCapture_v2(w.stream, kGlobal)),
    CAPTURED(kUnsupported, kDocumented, "cuStreamSynchronize of a captured stream",
             cuStreamSynchronize(w.stream)),
    CAPTURED(kUnsupported, kDocumented, "cuStreamQuery of a captured stream",
             cuStreamQuery(w.stream)),
    CAPTURED(kValue, kDocumented, "cuMemsetD8Async of no memory in a captured stream",
             cuMemsetD8Async(0x40, 0, 1, w.stream)),
    CAPTURED(kHandle, kDocumented, "cuLaunchKernel of no kernel in a captured stream",
             cuLaunchKernel(World::garbage<CUfunction>(), 1, 1, 1, 1, 1, 1, 0, w.stream, nullptr,
                            nullptr)),
    CAPTURED(kValue, kOurs, "cuMemFreeAsync of memory of no graph in a captured stream",
             cuMemFreeAsync(w.memory, w.stream)),
    CAPTURED(kValue, kDocumented, "cuStreamUpdateCaptureDependencies of nodes that are none",
             cuStreamUpdateCaptureDependencies(w.stream, nullptr, 1, 0)),
    ROW(kForked, kNotInit, kOurs, cuStreamBeginCapture_v2(nullptr, kGlobal)),
};

}  // namespace

const std::span<const Row> kCaptureRows = kRows;

}  // namespace vgpu::fidelity
