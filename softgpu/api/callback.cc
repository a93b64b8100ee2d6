// Host functions in streams.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/callback_scope.h"
#include "driver_functions.h"
#include "softgpu/api/capture_hooks.h"
#include "softgpu/api/driver.h"

namespace vgpu::driver {
namespace {

// Gives the stream a command for its host engine.
CUresult submit(CUstream handle, bool valid, std::unique_ptr<softgpu::Command> command,
                CUhostFn function, void* user) {
  softgpu::Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  if (!valid) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<softgpu::Stream> stream = softgpu::find_stream(*context, handle);
  if (stream == nullptr || stream->context != context) return green::lost_stream(handle);
  if (graph::watching()) [[unlikely]] {  // a callback becomes no node
    const auto taken = function != nullptr
                           ? graph::capture_host(softgpu::key_of(*stream), function, user)
                           : graph::capture_nothing(softgpu::key_of(*stream));
    if (taken.has_value()) return *taken;
  }
  command->kind = softgpu::CommandKind::kHost;
  context->device().management().submit(stream->queue, std::move(command));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user) {
  auto command = std::make_unique<softgpu::Command>();
  command->work = [function, user] {
    const HostFunctionScope scope;
    function(user);
  };
  return submit(handle, function != nullptr, std::move(command), function, user);
}

// Unlike a host function it is called in a broken context too, and told so.
CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* user,
                             unsigned int flags) {
  auto command = std::make_unique<softgpu::Command>();
  command->always = true;
  command->work = [raw = command.get(), handle, callback, user,
                   context = softgpu::context_stack().top()] {
    const CUresult status = raw->queue->channel->sticky();
    if (status == CUDA_ERROR_DEINITIALIZED) return;  // the process ends: its objects are going
    context->output().flush();
    const HostFunctionScope scope;
    callback(handle, status, user);
  };
  return submit(handle, callback != nullptr && flags == 0, std::move(command), nullptr, nullptr);
}

}  // namespace vgpu::driver
