// Created contexts, and the stack of current ones.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>

#include "api/graph/capture.h"
#include "api/green/affinity.h"
#include "api/green/contexts.h"
#include "driver_functions.h"
#include "softgpu/api/driver.h"

namespace vgpu::driver {
namespace {

using softgpu::check_device;
using softgpu::Context;
using softgpu::context_stack;
using softgpu::ContextStack;
using softgpu::Driver;
using softgpu::enter;
using softgpu::enter_ignoring_errors;

constexpr unsigned kFlagsMask = CU_CTX_FLAGS_MASK;

bool flags_valid(unsigned flags) {
  const unsigned schedule = flags & CU_CTX_SCHED_MASK;
  return (flags & ~kFlagsMask) == 0 && (schedule & (schedule - 1)) == 0;
}

CUresult push(Context* context, green::Green* view = nullptr) {
  ContextStack& stack = context_stack();
  if (stack.depth == softgpu::kContextStackMax) return CUDA_ERROR_OUT_OF_MEMORY;
  stack.entries[stack.depth] = context;
  stack.views[stack.depth++] = view;
  return CUDA_SUCCESS;
}

// What is current as a program knows it.
CUcontext top_handle(const ContextStack& stack) {
  const Context* const top = stack.top();
  if (top == nullptr) return nullptr;
  return stack.view() == nullptr ? top->handle : stack.view()->view;
}

// The context a call names: null means the current one.
CUresult named_or_current(CUcontext handle, Context** context) {
  if (handle == nullptr) return enter_ignoring_errors(context);
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  const std::shared_ptr<Context> found = Driver::instance().contexts.find(handle);
  if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!found->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *context = found.get();
  return CUDA_SUCCESS;
}

// The green context that such a handle means; null: none.
green::Green* view_of(CUcontext handle) {
  return handle == nullptr ? context_stack().view() : green::find_view(handle);
}

CUresult create(CUcontext* out, unsigned sms, unsigned flags, CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  if (out == nullptr || !flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  static std::atomic<uint64_t> next_number{softgpu::kCreatedId};
  Driver& driver = Driver::instance();
  auto context = std::make_shared<Context>(&driver.device(device), false, next_number.fetch_add(1));
  const uint32_t all = driver.device(device).config().sms;
  if (sms != 0 && sms < all)
    context->sms = std::make_shared<const softgpu::SmMask>(softgpu::SmMask::range(0, sms));
  context->open(flags);
  context->handle = driver.contexts.insert(context);
  if (context->handle == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (const CUresult pushed = push(context.get()); pushed != CUDA_SUCCESS) {
    driver.contexts.remove(context->handle);
    context->close();
    return pushed;
  }
  // A thread's stack may hold it beyond cuCtxDestroy: it is emptied then, but never freed.
  static std::vector<std::shared_ptr<Context>>* const kept =
      new std::vector<std::shared_ptr<Context>>();
  static std::mutex* const kept_mutex = new std::mutex();
  std::lock_guard<std::mutex> lock(*kept_mutex);
  kept->push_back(context);
  *out = context->handle;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  return create(context, 0, flags, device);
}

CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int count,
                        unsigned int flags, CUdevice device) {
  unsigned sms = 0;
  const CUresult r = green::read_affinity(affinity, count, &sms);
  return r != CUDA_SUCCESS ? r : create(context, sms, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* params, unsigned int flags,
                        CUdevice device) {
  unsigned sms = 0;
  const CUresult r = green::read_affinity(params, &sms);
  return r != CUDA_SUCCESS ? r : create(context, sms, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext handle) {
  Driver& driver = Driver::instance();
  if (const CUresult ready = driver.ready(); ready != CUDA_SUCCESS) return ready;
  const std::shared_ptr<Context> context = driver.contexts.find(handle);
  if (context == nullptr || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  ContextStack& stack = context_stack();
  if (stack.top() == context.get()) --stack.depth;
  context->close();  // before the handle goes: its destructors may still name it
  driver.contexts.remove(handle);
  return CUDA_SUCCESS;
}

CUresult cuCtxAttach(CUcontext* context, unsigned int flags) {
  Context* current = nullptr;
  if (const CUresult result = enter(&current); result != CUDA_SUCCESS) return result;
  if (context == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  current->uses.fetch_add(1);
  *context = current->handle;
  return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext handle) {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  Context* const current = context_stack().top();
  if (current == nullptr || current->handle != handle || current->primary)
    return CUDA_ERROR_INVALID_CONTEXT;
  return current->uses.fetch_sub(1) > 1 ? CUDA_SUCCESS : driver::cuCtxDestroy_v2(handle);
}

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  if (handle == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::shared_ptr<Context> context = Driver::instance().contexts.find(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return push(context.get(), green::find_view(handle));
}

CUresult cuCtxPopCurrent_v2(CUcontext* handle) {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  ContextStack& stack = context_stack();
  if (stack.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (handle != nullptr) *handle = top_handle(stack);
  --stack.depth;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  ContextStack& stack = context_stack();
  if (handle == nullptr) {
    if (stack.depth > 0) --stack.depth;
    return CUDA_SUCCESS;
  }
  const std::shared_ptr<Context> context = Driver::instance().contexts.find(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.depth == 0) return push(context.get(), green::find_view(handle));
  stack.entries[stack.depth - 1] = context.get();
  stack.views[stack.depth - 1] = green::find_view(handle);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* handle) {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *handle = top_handle(context_stack());
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  Context* context = nullptr;
  if (const CUresult result = named_or_current(handle, &context); result != CUDA_SUCCESS) {
    // The primary context has a device before it is retained.
    if (result != CUDA_ERROR_CONTEXT_IS_DESTROYED) return result;
    context =
        handle == nullptr ? context_stack().top() : Driver::instance().contexts.find(handle).get();
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device().config().ordinal;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) { return driver::cuCtxGetDevice_v2(device, nullptr); }

CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  Context* context = nullptr;
  if (const CUresult result = named_or_current(handle, &context); result != CUDA_SUCCESS)
    return result;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const green::Green* const view = view_of(handle);
  *id = view != nullptr ? view->unique_id : context->id;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int* version) {
  Context* context = nullptr;
  if (const CUresult result = named_or_current(handle, &context); result != CUDA_SUCCESS)
    return result;
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags.load();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (!flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  context->flags.store(flags);
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (green::Green* const view = context_stack().view()) return green::synchronize(view);
  if (const CUresult r = graph::check_context_use(context->handle); r != CUDA_SUCCESS) return r;
  return context->synchronise();
}

CUresult cuCtxSynchronize_v2(CUcontext handle) {
  Context* context = nullptr;
  if (const CUresult result = named_or_current(handle, &context); result != CUDA_SUCCESS)
    return result;
  if (green::Green* const view = view_of(handle)) return green::synchronize(view);
  if (const CUresult r = graph::check_context_use(context->handle); r != CUDA_SUCCESS) return r;
  return context->synchronise();
}

}  // namespace vgpu::driver
