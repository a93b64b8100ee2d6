// Host functions in streams.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "shim/capture_hooks.h"

namespace vgpu::driver {

using shim::Context;
using shim::enter;
using shim::find_stream;
using shim::HostFunction;
using shim::Session;
using shim::StreamRef;

namespace {

constexpr int kDriverVersionMin = 11070;  // streams that wait for values: see stream_memory.cc
enum Kind : uint32_t { kFunction = 0, kCallback = 1 };

CUresult submit(CUstream handle, bool valid, Kind kind, HostFunction function) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (!valid) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  if (CUresult r = find_stream(*session, context, handle, &stream); r != CUDA_SUCCESS) return r;
  if (session->hello().driver_version < kDriverVersionMin) return CUDA_ERROR_NOT_SUPPORTED;
  if (graph::watching()) [[unlikely]] {  // a callback becomes no node
    const graph::StreamKey key = shim::key_of(*context, stream);
    const auto taken = kind == kFunction
                           ? graph::capture_host(key, function.function, function.user)
                           : graph::capture_nothing(key);
    if (taken.has_value()) return *taken;
  }
  function.stream = handle;
  function.context = context;
  wire::HostFunctionArgs args;
  args.stream = stream.id;
  args.call = session->host_calls().add(session, function);
  args.kind = kind;
  if (args.call == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  if (session->post(context, Op::kHostFunction, args, {}, &stream) != 0) return CUDA_SUCCESS;
  session->host_calls().remove(args.call);
  return session->lost();
}

}  // namespace

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* user) {
  HostFunction entry;
  entry.function = function;
  entry.user = user;
  return submit(stream, function != nullptr, kFunction, entry);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* user,
                             unsigned int flags) {
  HostFunction entry;
  entry.callback = callback;
  entry.user = user;
  return submit(stream, callback != nullptr && flags == 0, kCallback, entry);
}

}  // namespace vgpu::driver
