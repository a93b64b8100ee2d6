// What batches of copies and of prefetches have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>

#include "api/graph/capture.h"

namespace vgpu::calls {

// How a batch begins: a context is current, the stream exists, and it is one that batches may be
// in: not the legacy one (INVALID_VALUE), nor one that is being captured. The driver has no node
// for batches; the capture stays valid.
inline CUresult begin_batch(CUstream handle) {
  graph::StreamKey stream;
  if (const CUresult r = graph::backend().find_stream(handle, &stream); r != CUDA_SUCCESS) return r;
  return stream.legacy ? CUDA_ERROR_INVALID_VALUE : graph::check_not_captured(stream);
}

// Whether `starts` cuts `count` entries into `parts` runs: it begins with 0, rises, and ends before
// `count`.
inline bool cuts_batch(const size_t* starts, size_t parts, size_t count) {
  if (starts == nullptr || parts == 0 || parts > count || starts[0] != 0) return false;
  for (size_t i = 1; i < parts; ++i) {
    if (starts[i] <= starts[i - 1]) return false;
  }
  return starts[parts - 1] < count;
}

// The run that an entry belongs to, for entries that are asked about in ascending order.
class RunOf {
 public:
  RunOf(const size_t* starts, size_t parts) : starts_(starts), parts_(parts) {}
  size_t at(size_t entry) {
    while (run_ + 1 < parts_ && starts_[run_ + 1] <= entry) ++run_;
    return run_;
  }

 private:
  const size_t* const starts_;
  const size_t parts_;
  size_t run_ = 0;
};

}  // namespace vgpu::calls
