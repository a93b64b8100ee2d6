// Conditional handles: the worker keeps those of one graph together, under a name that lives as
// long as somebody uses one of them. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_GRAPH_SOURCE_H_
#define VGPU_SHIM_GRAPH_SOURCE_H_

#include "api/graph/plan.h"
#include "shim/process.h"

namespace vgpu::shim {

// Asks the worker for a handle. A null *source is made first. Under the model's lock.
CUresult make_conditional(Session* session, Context* context,
                          std::shared_ptr<graph::ConditionalSource>* source,
                          graph::Conditional* conditional);

// The name of the source of a plan's conditional nodes, which all have the same one; 0: none.
uint64_t source_of(const graph::Plan& plan);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_GRAPH_SOURCE_H_
