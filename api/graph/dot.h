// A graph as text for Graphviz.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <string>

#include "api/graph/node.h"

namespace vgpu::graph {

// `flags`: CUgraphDebugDot_flags. The model's lock is held.
std::string dot_text(const Graph& graph, unsigned flags);
// OPERATING_SYSTEM when the file cannot be written.
CUresult write_text(const char* path, const std::string& text);

}  // namespace vgpu::graph
