// Host functions in streams.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "softgpu/api/callback_scope.h"
#include "softgpu/api/driver.h"

namespace vgpu::driver {

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user) {
  softgpu::Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<softgpu::Stream> stream = softgpu::find_stream(*context, handle);
  if (stream == nullptr || stream->context != context) return CUDA_ERROR_INVALID_HANDLE;
  auto command = std::make_unique<softgpu::Command>();
  command->kind = softgpu::CommandKind::kHost;
  command->work = [function, user] {
    softgpu::inside_host_function = true;
    function(user);
    softgpu::inside_host_function = false;
  };
  context->device().management().submit(stream->queue, std::move(command));
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
