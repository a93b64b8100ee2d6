// Kernels as a context has them: what can be asked of one, and set, is each context's own.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_KERNEL_USE_H_
#define VGPU_SHIM_KERNEL_USE_H_

#include "shim/module_table.h"

namespace vgpu::shim {

// A library's kernel as it is in `context`; any other as it is. The first use in a further context
// asks the worker, as a driver may have to load it there: its error is the call's.
CUresult use_in_further(Session& session, Context* context, const Function& function,
                        Kernel** kernel);
inline CUresult use_kernel(Session& session, Context* context, const Function& function,
                           Kernel** kernel) {
  *kernel = function.kernel;
  if (function.context != nullptr || function.home_life == context->unique_id) [[likely]]
    return CUDA_SUCCESS;
  return use_in_further(session, context, function, kernel);
}

CUresult set_function_attribute(Session& session, Context* context, Function* function,
                                CUfunction_attribute which, int value);
CUresult set_cache_config(Session& session, Context* context, Function* function,
                          CUfunc_cache config);
CUresult param_info(const Function& function, size_t index, size_t* offset, size_t* bytes);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_KERNEL_USE_H_
