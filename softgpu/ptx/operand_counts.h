// How many operands instructions have at least.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace vgpu::softgpu::ptx {

// 0 for opcodes that have none, whose number varies, or that are unknown: the code generator looks
// at those. The analyses before it count on the others.
size_t least_operands(const std::string& opcode);

}  // namespace vgpu::softgpu::ptx
