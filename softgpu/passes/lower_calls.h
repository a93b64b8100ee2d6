// Turns calls that were not inlined into jumps, so that one function runs the whole warp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "softgpu/passes/call_graph.h"
#include "softgpu/passes/kernel.h"

namespace vgpu::softgpu {

// Calls become jumps to one copy of the called function's body, returns become switches over the
// places to return to; arguments, results, locals and what recursion would overwrite live on a
// stack per lane. So lanes of a warp diverge, wait and meet inside of functions as anywhere else.
// Also lowers brx.idx, alloca, stacksave and stackrestore. Instructions that only this pass makes:
//   switch %r, {label = value, …}   as brx.idx, by value; no such value is a fault
//   frame.u64 %d, %s                each lane's address of offset %s in its stack
//   stackcheck %s                   a fault where %s is beyond the lane's stack
bool lower_calls(const CallGraph& graph, Kernel* kernel, Diagnostic* error);

}  // namespace vgpu::softgpu
