// Puts the bodies of called functions in the place of their calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "softgpu/passes/call_graph.h"
#include "softgpu/ptx/ast.h"

namespace vgpu::softgpu {

// Puts the bodies of called functions in the place of their calls. Recursive and indirect calls
// stay, and those of services and of what the graph keeps. False and a diagnostic for undefined
// functions.
bool inline_calls(const ptx::Module& module, const CallGraph& graph, ptx::Function* function,
                  Diagnostic* error);

}  // namespace vgpu::softgpu
