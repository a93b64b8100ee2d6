// What a function that is called needs on its lane's stack, and what calls leave alive.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/passes/frame.h"

#include <algorithm>

#include "softgpu/passes/instruction_builder.h"

namespace vgpu::softgpu {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Operand;

int register_named(const Function& f, const std::string& name) {
  for (size_t i = 0; i < f.registers.size(); ++i) {
    if (f.registers[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

void place(const Function& f, const std::vector<ptx::Variable>& list, Frame* frame,
           std::vector<ptx::Variable>* placed,
           std::vector<std::pair<int, uint32_t>>* in_registers) {
  for (ptx::Variable v : list) {
    const uint32_t align = std::max<uint32_t>(v.align, 1);
    frame->bytes = (frame->bytes + align - 1) / align * align;
    v.offset = frame->bytes;
    frame->bytes += static_cast<uint32_t>(v.bytes);
    if (v.space == ptx::Space::kReg)
      in_registers->emplace_back(register_named(f, v.name), v.offset);
    else
      frame->places[v.name] = v.offset;
    placed->push_back(v);
  }
}

}  // namespace

Frame frame_of(const Function& f) {
  Frame frame;
  place(f, f.returns, &frame, &frame.returns, &frame.register_returns);
  place(f, f.params, &frame, &frame.params, &frame.register_params);
  const uint32_t locals = (frame.bytes + 15) / 16 * 16;
  for (const auto& [name, variable] : f.variables) {
    if (variable.space == ptx::Space::kLocal) frame.places[name] = locals + variable.offset;
  }
  frame.bytes = locals + f.local_slice();
  return frame;
}

std::map<size_t, BitSet> live_after_calls(const Function& f) {
  std::map<size_t, BitSet> result;
  if (std::none_of(f.body.begin(), f.body.end(),
                   [](const Instruction& in) { return in.opcode == "call"; })) {
    return result;
  }
  Kernel k;
  k.function = f;
  cut_blocks(&k);
  find_liveness(&k);
  const size_t registers = f.registers.size();
  const Frame frame = frame_of(f);
  std::vector<int> writes, reads;
  size_t end = 0;
  for (const Block& block : k.blocks) {
    end += block.code.size();
    BitSet live(registers);
    for (int s : block.successors) live.merge(k.live_in[s]);
    for (const auto& [r, offset] : frame.register_returns) live.set(static_cast<size_t>(r));
    for (size_t i = block.code.size(); i-- > 0;) {
      const Instruction& in = block.code[i];
      registers_of(in, &writes, &reads);
      if (in.guard < 0) {
        for (int w : writes) live.clear(static_cast<size_t>(w));
      }
      if (in.opcode == "call") result.emplace(end - block.code.size() + i, live);
      for (int r : reads) live.set(static_cast<size_t>(r));
    }
  }
  return result;
}

void lower_branch_tables(Function* f) {
  std::vector<Instruction> body;
  std::vector<int> moved;
  int skips = 0;
  std::map<std::string, int> added;
  for (const Instruction& in : f->body) {
    moved.push_back(static_cast<int>(body.size()));
    if (in.opcode != "brx") {
      body.push_back(in);
      continue;
    }
    Instruction plain = in;
    plain.guard = -1;
    const std::string over = make::hidden("table", ++skips);
    if (in.guard >= 0) {
      Instruction skip = in;
      skip.guard_negated = !skip.guard_negated;
      body.push_back(make::instruction("bra", {make::symbol(over)}, skip));
    }
    Operand targets;
    targets.kind = Operand::Kind::kVector;
    for (const std::string& label : f->branch_targets[in.operands[1].symbol]) {
      const auto number = static_cast<int64_t>(targets.elements.size());
      targets.elements.push_back(make::symbol(label, number));
    }
    body.push_back(make::instruction("switch", {in.operands[0], targets}, plain));
    if (in.guard >= 0) added[over] = static_cast<int>(body.size());
  }
  if (body.size() == f->body.size() && skips == 0) return;
  moved.push_back(static_cast<int>(body.size()));
  for (auto& [label, index] : f->labels) index = moved[static_cast<size_t>(index)];
  f->labels.insert(added.begin(), added.end());
  f->body = std::move(body);
}

}  // namespace vgpu::softgpu
