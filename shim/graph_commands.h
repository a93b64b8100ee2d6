// Nodes as commands of the channel.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_GRAPH_COMMANDS_H_
#define VGPU_SHIM_GRAPH_COMMANDS_H_

#include <vector>

#include "api/graph/plan.h"
#include "protocol/wire/graph_nodes.h"
#include "shim/graph_staging.h"
#include "shim/kernel_launch.h"

namespace vgpu::shim {

// A function that the worker calls for a step, by its name there.
struct GraphFunction {
  uint32_t step = 0;
  uint64_t name = 0;
};

// Fills in the command of a step, and what the header says of it. What it needs must still exist.
// A host function gets a name, which is added to `functions`; so do those that move ordinary memory
// for a copy.
CUresult graph_command(Session& session, Context* context, const graph::Plan& plan, uint32_t number,
                       GraphStaging& staging, bool node_priority, protocol::GraphNodeHeader* header,
                       std::vector<std::byte>* command, std::vector<GraphFunction>* functions);

// The function that a kernel node runs: a CUfunction of `context`, or a CUkernel. INVALID_HANDLE.
CUresult find_node_function(Session& session, const Context* context,
                            const graph::KernelPayload& kernel, Function** function);
Shape shape_of(const graph::KernelPayload& kernel);

// What a fill node may be.
CUresult check_fill(Session& session, const CUDA_MEMSET_NODE_PARAMS_v2& fill);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_GRAPH_COMMANDS_H_
