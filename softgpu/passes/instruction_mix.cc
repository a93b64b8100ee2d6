// Sorts instructions into classes, for profiles.
// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "softgpu/passes/kernel.h"

namespace vgpu::softgpu {
namespace {

InstructionClass memory_class(const ptx::Instruction& in) {
  if (in.in_shared()) return InstructionClass::kShared;
  if (in.has("local")) return InstructionClass::kLocal;
  if (in.has("param") || in.has("const")) return InstructionClass::kOther;
  return InstructionClass::kGlobal;
}

InstructionClass class_of(const ptx::Instruction& in) {
  static const std::set<std::string> kControl = {"bra",    "ret",  "exit", "brx",
                                                 "switch", "call", "trap", "brkpt"};
  static const std::set<std::string> kWarp = {"shfl",  "vote",       "match",
                                              "redux", "activemask", "elect"};
  const std::string& op = in.opcode;
  if (kControl.count(op) != 0) return InstructionClass::kControl;
  if (kWarp.count(op) != 0) return InstructionClass::kAcrossLanes;
  if (op == "atom" || op == "red") return InstructionClass::kAtomic;
  if (op == "bar" || op == "barrier") return InstructionClass::kBarrier;
  if (op == "ld" || op == "st") return memory_class(in);
  if (op == "cvt" || op == "cvta" || op == "mov") return InstructionClass::kConvert;
  ptx::Type t;
  if (!in.type_from_end(0, &t)) return InstructionClass::kOther;
  if (t.kind == 'f' && t.bits == 64) return InstructionClass::kFloat64;
  if (t.kind == 'f' || t.kind == 'h' || t.kind == 'g') return InstructionClass::kFloat32;
  return InstructionClass::kInteger;
}

uint32_t flops_of(const ptx::Instruction& in) {
  static const std::set<std::string> kOne = {"add",   "sub", "mul", "div", "rcp", "sqrt",
                                             "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"};
  ptx::Type t;
  if (!in.type_from_end(0, &t) || (t.kind != 'f' && t.kind != 'h' && t.kind != 'g')) return 0;
  const uint32_t width = t.bits == 32 && t.kind != 'f' ? 2 : 1;  // pairs
  if (in.opcode == "fma" || in.opcode == "mad") return 2 * width;
  return kOne.count(in.opcode) != 0 ? width : 0;
}

}  // namespace

std::vector<BlockMix> instruction_mix(const Kernel& kernel) {
  std::vector<BlockMix> mix(kernel.blocks.size());
  for (size_t b = 0; b < mix.size(); ++b) {
    for (const ptx::Instruction& in : kernel.blocks[b].code) {
      ++mix[b].count[static_cast<size_t>(class_of(in))];
      mix[b].flops += flops_of(in);
    }
  }
  return mix;
}

}  // namespace vgpu::softgpu
