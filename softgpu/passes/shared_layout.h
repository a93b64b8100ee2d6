// Where a kernel's static shared variables lie in its block's window.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

#include "softgpu/ptx/ast.h"

namespace vgpu::softgpu {

// The parser numbers all shared variables of a module as if they were one window; a kernel gets
// only those that it or a function it calls names, as the real linker does.
struct SharedLayout {
  std::map<uint32_t, uint32_t> place;  // offset in the module's numbering → offset in the window
  uint32_t bytes = 0;
};

// All of the module's when the kernel calls functions by address: any of them may be meant.
SharedLayout shared_layout(const ptx::Module& module, const ptx::Function& kernel);

}  // namespace vgpu::softgpu
