// Which default stream the running call means: the legacy one, or the thread's own (_ptsz and _ptds
// entry points). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace vgpu::driver {

// True while a _ptds entry point runs that has no stream argument of its own.
inline thread_local bool per_thread_default = false;

// Marks a call as made through a per-thread entry point.
class PerThreadScope {
 public:
  PerThreadScope() : before_(per_thread_default) { per_thread_default = true; }
  ~PerThreadScope() { per_thread_default = before_; }
  PerThreadScope(const PerThreadScope&) = delete;
  PerThreadScope& operator=(const PerThreadScope&) = delete;

 private:
  bool before_;
};

// A null stream in a _ptsz entry point means the calling thread's stream.
inline CUstream per_thread(CUstream stream) {
  return stream == nullptr ? CU_STREAM_PER_THREAD : stream;
}

// The stream that a call without a stream argument uses.
inline CUstream default_stream() {
  return per_thread_default ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

}  // namespace vgpu::driver
