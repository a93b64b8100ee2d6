// What all copies have in common: where they run, and when they have to wait.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_COPY_H_
#define VGPU_SHIM_COPY_H_

#include <cuda.h>

#include "api/default_stream.h"
#include "shim/stream_table.h"

namespace vgpu::shim {

enum class Timing : uint8_t { kSynchronous, kAsynchronous };

struct Copy {
  Session* session = nullptr;
  Context* current = nullptr;  // whose arrays the handles mean
  Context* context = nullptr;  // the stream's
  StreamRef stream;
  Timing timing = Timing::kSynchronous;
};

// The checks that come first. A copy may run in a stream of another context than the current one.
inline CUresult begin(Copy* copy, CUstream stream, Timing timing) {
  copy->timing = timing;
  if (CUresult r = enter(&copy->session, &copy->current); r != CUDA_SUCCESS) return r;
  copy->context = copy->current;
  if (stream == nullptr) stream = driver::default_stream();
  return find_any_stream(*copy->session, stream, &copy->stream, &copy->context);
}

// A synchronous copy to the device is done when it returns, also for streams that do not order with
// it. Where there are none, order in the channel is enough, unless kernels print: then it shows
// what; or unless another process may look at the memory.
inline bool must_wait(const Copy& copy) {
  return copy.timing == Timing::kSynchronous &&
         (copy.session->output().prints() || copy.session->shared().any.load() ||
          copy.context->unordered_streams.load(std::memory_order_relaxed) != 0 ||
          copy.session->contexts().active_count() > 1);
}

// The end of a copy that was submitted with `result`.
inline CUresult wait_if(const Copy& copy, bool wait, CUresult result) {
  return result == CUDA_SUCCESS && wait && copy.timing == Timing::kSynchronous
             ? synchronize_stream(*copy.session, copy.context, copy.stream)
             : result;
}

// Before this thread reads memory that the program has registered, for an asynchronous copy:
// natively the device reads it when the stream gets there, behind functions of the program's that
// may write to it. So while there are such functions it is read when the stream has got there.
inline CUresult wait_for_writers(const Copy& copy) {
  if (copy.timing == Timing::kSynchronous || !copy.session->host_calls().outstanding()) [[likely]]
    return CUDA_SUCCESS;
  return synchronize_stream(*copy.session, copy.context, copy.stream);
}

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_COPY_H_
