// Limits of contexts.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "shim/process.h"

namespace vgpu::driver {

using shim::Context;
using shim::enter;
using shim::Session;

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  wire::ContextSetLimitArgs args;
  args.context = context->id;
  args.limit = static_cast<uint32_t>(limit);
  args.value = value;
  const CUresult result = session->call(context, Op::kContextSetLimit, args);
  if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && result == CUDA_SUCCESS)
    shim::count_heap(*session, context, value);
  return result;
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (value == nullptr || limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  wire::ContextGetLimitArgs args;
  args.context = context->id;
  args.limit = static_cast<uint32_t>(limit);
  wire::ContextGetLimitReply answer;
  const CUresult result = session->ask(context, Op::kContextGetLimit, args, &answer);
  if (result == CUDA_SUCCESS) *value = answer.value;
  return result;
}

}  // namespace vgpu::driver
