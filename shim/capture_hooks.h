// Streams as capture knows them.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_CAPTURE_HOOKS_H_
#define VGPU_SHIM_CAPTURE_HOOKS_H_

#include <optional>

#include "api/graph/capture.h"
#include "shim/stream_table.h"

namespace vgpu::shim {

inline graph::StreamKey key_of(const Context& context, const StreamRef& stream) {
  if (stream.stream == nullptr) return {context.id, context.handle(), true, true, 0};
  const bool blocking = (stream.stream->flags & CU_STREAM_NON_BLOCKING) == 0;
  return {stream.id, context.handle(), false, blocking, stream.stream->priority};
}

// Whether a call that waits for `stream`, or runs there without capture's seeing it, is allowed.
inline CUresult check_stream_use(const Context& context, const StreamRef& stream) {
  return graph::watching() ? graph::check_stream_use(key_of(context, stream)) : CUDA_SUCCESS;
}
// The same as what a call does not go on with.
inline std::optional<CUresult> refuse_waiting(const Context& context, const StreamRef& stream) {
  const CUresult r = check_stream_use(context, stream);
  return r == CUDA_SUCCESS ? std::nullopt : std::optional<CUresult>(r);
}

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_CAPTURE_HOOKS_H_
