// Puts the bodies of called functions in the place of their calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "softgpu/ptx/ast.h"

namespace vgpu::softgpu {

// Functions that the runtime provides; their calls stay calls.
bool is_service(const std::string& name);

// False and a diagnostic for recursion, indirect calls and undefined functions.
bool inline_calls(const ptx::Module& module, ptx::Function* function, Diagnostic* error);

}  // namespace vgpu::softgpu
