// Streams and events as capture knows them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/graph/capture.h"
#include "softgpu/api/context_object.h"
#include "softgpu/api/driver.h"

namespace vgpu::softgpu {

inline graph::StreamKey key_of(const Stream& stream) {
  return {reinterpret_cast<uint64_t>(stream.queue.get()), stream.context->handle,
          stream.queue->legacy, stream.queue->blocking, stream.priority};
}

// Whether a call that waits for `stream`, or runs there without capture's seeing it, is allowed.
inline CUresult check_stream_use(const Stream& stream) {
  return graph::watching() ? graph::check_stream_use(key_of(stream)) : CUDA_SUCCESS;
}

}  // namespace vgpu::softgpu
