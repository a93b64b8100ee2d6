// Which instructions there are in texts, and how many operands they have at least.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace vgpu::softgpu::ptx {

// 0 for opcodes that have none, whose number varies, or that are unknown: the code generator looks
// at those. The analyses before it count on the others.
size_t least_operands(const std::string& opcode);

// Whether there is such an instruction. It may still be refused where a kernel that has it is
// compiled.
bool is_opcode(const std::string& opcode);

// Instructions of one architecture alone, whose PTX names it (sm_90a, sm_100a): no other device
// takes them.
bool of_one_architecture(const std::string& opcode);

// Opcodes that stand in no text: softgpu/passes/lower_calls.h.
bool only_passes_make(const std::string& opcode);

}  // namespace vgpu::softgpu::ptx
