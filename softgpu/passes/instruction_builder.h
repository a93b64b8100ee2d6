// Short ways to write instructions in passes that make some.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "softgpu/ptx/ast.h"

namespace vgpu::softgpu::make {

// A name that no PTX text can hold: labels and prefixes that passes make clash with no label of the
// program's own.
inline std::string hidden(const std::string& text) { return "<" + text + ">"; }
inline std::string hidden(const std::string& text, int number) {
  return hidden(text + std::to_string(number));
}

inline ptx::Operand reg(int r) {
  ptx::Operand o;
  o.kind = ptx::Operand::Kind::kRegister;
  o.reg = r;
  return o;
}

inline ptx::Operand number(int64_t value) {
  ptx::Operand o;
  o.kind = ptx::Operand::Kind::kInteger;
  o.integer = value;
  return o;
}

inline ptx::Operand symbol(const std::string& name, int64_t offset = 0) {
  ptx::Operand o;
  o.kind = ptx::Operand::Kind::kSymbol;
  o.symbol = name;
  o.integer = offset;
  return o;
}

// [base + offset] of a register, or of a variable.
inline ptx::Operand address(int base, int64_t offset) {
  ptx::Operand o;
  o.kind = ptx::Operand::Kind::kAddress;
  o.reg = base;
  o.integer = offset;
  return o;
}
inline ptx::Operand address(const std::string& name, int64_t offset) {
  ptx::Operand o = address(-1, offset);
  o.symbol = name;
  return o;
}

// "add.u32" with its operands; `like` gives line and guard.
inline ptx::Instruction instruction(const std::string& spelling, std::vector<ptx::Operand> operands,
                                    const ptx::Instruction& like) {
  ptx::Instruction in;
  size_t dot = spelling.find('.');
  in.opcode = spelling.substr(0, dot);
  while (dot != std::string::npos) {
    const size_t next = spelling.find('.', dot + 1);
    in.modifiers.push_back(
        spelling.substr(dot + 1, next == std::string::npos ? next : next - dot - 1));
    dot = next;
  }
  in.operands = std::move(operands);
  in.line = like.line;
  in.column = like.column;
  in.guard = like.guard;
  in.guard_negated = like.guard_negated;
  return in;
}

}  // namespace vgpu::softgpu::make
