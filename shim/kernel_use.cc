// Libraries' kernels in further contexts, and the attributes of all.
// SPDX-License-Identifier: Apache-2.0
#include "shim/kernel_use.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace vgpu::shim {

CUresult use_in_further(Session& session, Context* context, const Function& function,
                        Kernel** kernel) {
  FurtherKernels& further = *function.kernel->further;
  const uint64_t life = context->unique_id;
  if (Kernel* known = further.find(life)) {
    *kernel = known;
    return CUDA_SUCCESS;
  }
  wire::KernelUseArgs args;
  args.module = function.module;
  args.index = function.index;
  wire::KernelUseReply answer;
  CUresult r = session.ask(context, Op::kKernelUse, args, &answer);
  const Module* const library = session.libraries.find(function.module);
  const uint64_t bytes = library == nullptr ? 0 : library->variables.bytes();
  if (r == CUDA_ERROR_OUT_OF_MEMORY && session.reclaim(context->device, bytes))
    r = session.ask(context, Op::kKernelUse, args, &answer);
  if (r != CUDA_SUCCESS) return r;
  std::unique_lock lock(session.objects);
  *kernel = further.find(life);  // another thread may have been faster
  if (*kernel != nullptr) return CUDA_SUCCESS;
  FurtherKernel* const newest = further.first.load(std::memory_order_relaxed);
  FurtherKernel* place = newest;  // of an earlier life, in which nobody is any more
  while (place != nullptr && place->context != context) place = place->next;
  const bool is_new = place == nullptr;
  if (is_new) {
    place = new (std::nothrow) FurtherKernel();
    if (place == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    place->kernel = *function.kernel;
    place->kernel.further = nullptr;
    place->context = context;
    place->kernel.attributes.resize(std::size(answer.attributes));
    place->next = newest;
  }
  std::copy(std::begin(answer.attributes), std::end(answer.attributes),
            place->kernel.attributes.begin());
  place->life.store(life, std::memory_order_release);
  if (is_new) further.first.store(place, std::memory_order_release);
  *kernel = &place->kernel;
  return CUDA_SUCCESS;
}

namespace {

void keep_attribute(Kernel* kernel, CUfunction_attribute which, int value) {
  std::vector<int32_t>& attributes = kernel->attributes;
  if (attributes.size() <= static_cast<size_t>(which))
    attributes.resize(static_cast<size_t>(which) + 1);
  const bool is_flag = which == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
  attributes[static_cast<size_t>(which)] = is_flag && value != 0 ? 1 : value;
}

// Where else on the context's device a library's kernel is used: what is set on it is the device's.
std::vector<std::pair<Context*, Kernel*>> other_uses(const Function& function, Context* context) {
  std::vector<std::pair<Context*, Kernel*>> others;
  if (function.context != nullptr) return others;
  const auto add = [&](Context* other, uint64_t life, Kernel* kernel) {
    const bool there = other->active.load(std::memory_order_acquire) && other->unique_id == life;
    if (other != context && other->device == context->device && there)
      others.emplace_back(other, kernel);
  };
  add(function.home, function.home_life, function.kernel);
  FurtherKernel* each = function.kernel->further->first.load(std::memory_order_acquire);
  for (; each != nullptr; each = each->next)
    add(each->context, each->life.load(std::memory_order_acquire), &each->kernel);
  return others;
}

}  // namespace

CUresult set_function_attribute(Session& session, Context* context, Function* function,
                                CUfunction_attribute which, int value) {
  if (which < 0 || which >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  Kernel* kernel = nullptr;
  if (CUresult r = use_kernel(session, context, *function, &kernel); r != CUDA_SUCCESS) return r;
  wire::FunctionSetAttributeArgs args;
  args.module = function->module;
  args.index = function->index;
  args.attribute = which;
  args.value = value;
  const CUresult result = session.call(context, Op::kFunctionSetAttribute, args);
  if (result != CUDA_SUCCESS) return result;
  const auto others = other_uses(*function, context);
  for (const auto& [other, same] : others)
    (void)session.call(other, Op::kFunctionSetAttribute, args);
  std::unique_lock lock(session.objects);
  keep_attribute(kernel, which, value);
  for (const auto& [other, same] : others) keep_attribute(same, which, value);
  return CUDA_SUCCESS;
}

CUresult set_cache_config(Session& session, Context* context, Function* function,
                          CUfunc_cache config) {
  if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
    return CUDA_ERROR_INVALID_VALUE;
  Kernel* kernel = nullptr;
  if (CUresult r = use_kernel(session, context, *function, &kernel); r != CUDA_SUCCESS) return r;
  wire::FunctionSetCacheConfigArgs args;
  args.module = function->module;
  args.index = function->index;
  args.config = static_cast<uint32_t>(config);
  return session.post(context, Op::kFunctionSetCacheConfig, args) != 0 ? CUDA_SUCCESS
                                                                       : session.lost();
}

CUresult param_info(const Function& function, size_t index, size_t* offset, size_t* bytes) {
  const auto& params = function.kernel->params;
  if (offset == nullptr || index >= params.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = params[index].offset;
  if (bytes != nullptr) *bytes = params[index].bytes;
  return CUDA_SUCCESS;
}

}  // namespace vgpu::shim
