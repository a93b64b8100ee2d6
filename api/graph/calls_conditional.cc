// Conditional handles.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/graph/backend.h"
#include "api/graph/model.h"
#include "driver_functions.h"

namespace vgpu::driver {

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph handle,
                                        CUcontext context, unsigned int value, unsigned int flags) {
  CUcontext current = nullptr;
  if (const CUresult r = graph::backend().enter(&current); r != CUDA_SUCCESS) return r;
  if (out == nullptr || (flags & ~static_cast<unsigned>(CU_GRAPH_COND_ASSIGN_DEFAULT)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<graph::Conditional>();
  made->context = context != nullptr ? context : current;
  made->value = value;
  made->assigns = flags == CU_GRAPH_COND_ASSIGN_DEFAULT;
  graph::Model& model = graph::Model::instance();
  std::lock_guard lock(model.mutex);
  graph::Graph* found = model.find_graph(handle);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  graph::Graph& whole = graph::outermost(*found);
  for (const auto& other : whole.conditionals) {  // all nodes of a graph are of one context
    if (other->context != made->context) return CUDA_ERROR_NOT_SUPPORTED;
  }
  const CUresult r = graph::backend().make_conditional(&whole.conditional_source, made.get());
  if (r != CUDA_SUCCESS) return r;
  made->source = whole.conditional_source;
  *out = made->handle;
  whole.conditionals.push_back(std::move(made));
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
