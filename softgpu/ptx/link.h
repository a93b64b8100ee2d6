// Puts modules together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "softgpu/ptx/ast.h"

namespace vgpu::softgpu::ptx {

// One module out of several: names that only one module sees stay apart, declarations meet their
// definitions, weak definitions need be there once only. False and a text for what is defined
// twice, or used and defined nowhere.
bool link_modules(std::vector<Module> modules, Module* out, std::string* error);

// Names that are used and defined nowhere, functions of the runtime aside.
std::vector<std::string> undefined_names(const Module& module);

}  // namespace vgpu::softgpu::ptx
