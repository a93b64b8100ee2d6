// Stream capture: which streams are being captured, and what calls may do meanwhile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <atomic>
#include <optional>

#include "api/geometry/rect.h"
#include "api/graph/backend.h"

namespace vgpu::graph {

// Captures that are going on, and events last recorded in a captured stream (even of captures that
// are over: programs keep such events). relaxed: a thread sees its own captures, and whatever it
// was told of another thread's.
inline std::atomic<uint32_t> captures_running{0}, events_captured{0};
// Whether a call must look closer, and whether one with an event must.
inline bool watching() { return captures_running.load(std::memory_order_relaxed) != 0; }
inline bool watching_events() {
  return watching() || events_captured.load(std::memory_order_relaxed) != 0;
}

// --- Work for a stream. Nothing: it is not captured, and goes on as ever. Else what the call
// --- returns: it has become a node, or is not allowed.
std::optional<CUresult> capture_kernel(const StreamKey& stream,
                                       const CUDA_KERNEL_NODE_PARAMS_v2& params,
                                       const CUlaunchAttribute* attributes, unsigned count);
std::optional<CUresult> capture_copy(const StreamKey& stream, const CUDA_MEMCPY3D& params);
std::optional<CUresult> capture_fill(const StreamKey& stream,
                                     const CUDA_MEMSET_NODE_PARAMS_v2& params);
std::optional<CUresult> capture_host(const StreamKey& stream, CUhostFn function, void* user);
std::optional<CUresult> capture_operations(const StreamKey& stream, unsigned count,
                                           const CUstreamBatchMemOpParams* params, unsigned flags);
std::optional<CUresult> capture_nothing(const StreamKey& stream);  // what cannot be a node
std::optional<CUresult> capture_record(const StreamKey& stream, CUevent event, bool external);
std::optional<CUresult> capture_wait(const StreamKey& stream, CUevent event, bool external);
std::optional<CUresult> capture_alloc(const StreamKey& stream, size_t bytes, CUdeviceptr* address);
std::optional<CUresult> capture_free(const StreamKey& stream, CUdeviceptr address);
std::optional<CUresult> capture_graph(const StreamKey& stream, CUgraphExec exec);

// Both sides of a linear copy, as a box.
CUDA_MEMCPY3D linear_copy(CUdeviceptr to, CUmemorytype to_type, CUdeviceptr from,
                          CUmemorytype from_type, size_t bytes);
CUDA_MEMCPY3D box_of(const CUDA_MEMCPY2D& copy);
CUDA_MEMCPY3D box_of(const RectSide& to, const RectSide& from, size_t bytes);  // one row

// --- Calls that are no work: CUDA_SUCCESS, or why they are not allowed now. What is captured is
// --- invalid then.
CUresult check_stream_use(const StreamKey& stream);  // query, synchronise, work that waits
// Work that the driver has no node for and that leaves the capture as it is: batches of copies.
CUresult check_not_captured(const StreamKey& stream);
CUresult check_event_use(CUevent event);
CUresult check_captured(CUevent event);         // CAPTURED_EVENT; nothing becomes invalid
CUresult check_context_use(CUcontext context);  // synchronise
// Work for, or behind, all streams of a context; `awaited`: the event that it waits for, or null.
CUresult check_context_work(CUcontext context, CUevent awaited);
CUresult check_unsafe();  // what capture cannot see, such as cuMemAlloc

// The handle is another's from now on.
void forget_stream(const StreamKey& stream);
void forget_event(CUevent event);
void forget_context(CUcontext context);

}  // namespace vgpu::graph
