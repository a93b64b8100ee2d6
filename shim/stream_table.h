// Looking up streams and events: the special handles, the thread's default streams, and who may use
// them. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_STREAM_TABLE_H_
#define VGPU_SHIM_STREAM_TABLE_H_

#include "shim/process.h"

namespace vgpu::shim {

// The stream that `handle` means in `context`: null and the legacy handle, the thread's own, or a
// created one. INVALID_HANDLE for anything else and for a stream of another context.
CUresult find_stream(Session& session, Context* context, CUstream handle, StreamRef* stream);

// A created stream of whatever context, for calls that are not work (query, synchronise, destroy).
// The special handles mean those of the current context, which must then exist.
CUresult find_any_stream(Session& session, CUstream handle, StreamRef* stream, Context** context);

// Makes a stream and tells the worker.
CUresult create_stream(Session& session, Context* context, uint32_t flags, int priority,
                       bool per_thread, StreamRef* stream);
// The same over the SMs of a green context of `context`: non-blocking.
CUresult create_stream(Session& session, Context* context, const green::Green& green, int priority,
                       StreamRef* stream);

// How many SMs kernels in `stream` have; 0: all.
inline uint32_t sms_of(const Context& context, const StreamRef& stream) {
  const uint32_t own = stream.stream == nullptr ? 0u : uint32_t{stream.stream->sms};
  return own != 0 ? own : context.sms.load(std::memory_order_relaxed);
}
// INVALID_HANDLE when another thread was faster.
CUresult destroy_stream(Session& session, const StreamRef& stream);

// Waits for all work of one stream; answered here when nothing was submitted since it was last
// known to be done.
CUresult synchronize_stream(Session& session, Context* context, const StreamRef& stream);

// Ends the default streams of a thread that ends.
void end_default_streams(ThreadState* state);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_STREAM_TABLE_H_
