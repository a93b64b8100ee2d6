// Loads of neighbouring words, as unrolled loops make them, become one load of a vector where lanes
// go anywhere: each lane's words are then fetched at once. SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "softgpu/passes/kernel.h"

namespace vgpu::softgpu {
namespace {

using ptx::Instruction;
using ptx::Operand;

// What a load may move over: nothing that writes memory, or that orders it.
bool plain(const Instruction& in) {
  static const char* const kPlain[] = {"add",  "sub",  "mul", "mad", "fma",  "mov", "cvt", "cvta",
                                       "shl",  "shr",  "and", "or",  "xor",  "not", "neg", "abs",
                                       "setp", "selp", "min", "max", "lop3", "shf", "bfe", "bfi"};
  return std::any_of(std::begin(kPlain), std::end(kPlain),
                     [&](const char* opcode) { return in.opcode == opcode; });
}

class Merging {
 public:
  Merging(Kernel* kernel, Block* block) : k_(*kernel), block_(*block) {}

  void run() {
    for (size_t i = 0; i < block_.code.size(); ++i) {
      if (!mergeable(block_.code[i])) continue;
      find_members(i);
      while (take_run(4) || take_run(2)) {
      }
    }
    std::erase_if(block_.code, [](const Instruction& in) { return in.opcode.empty(); });
  }

 private:
  static bool ordered(const Instruction& in) {
    return in.has("volatile") || in.has("relaxed") || in.has("acquire") || in.has("mmio");
  }

  bool mergeable(const Instruction& in) const {
    ptx::Type type;
    if (in.opcode != "ld" || in.guard >= 0 || ordered(in) || in.has("param") ||
        in.operands.size() != 2 || !in.type_from_end(0, &type) || type.bytes() != kBytes)
      return false;
    const Operand &d = in.operands[0], &from = in.operands[1];
    return d.kind == Operand::Kind::kRegister && d.second < 0 &&
           from.kind == Operand::Kind::kAddress && from.reg >= 0 && from.symbol.empty() &&
           d.reg != from.reg && anywhere(from.reg);
  }

  bool anywhere(int base) const {
    return k_.stride[base] == Kernel::kNotAffine &&
           (k_.row_stride.empty() || k_.row_stride[base] == Kernel::kNotAffine);
  }

  // Loads from block_.code[first] on that could stand there.
  void find_members(size_t first) {
    members_.clear();
    const Instruction& like = block_.code[first];
    const int base = like.operands[1].reg;
    BitSet touched(k_.function.registers.size());
    std::vector<int> writes, reads;
    for (size_t i = first; i < block_.code.size(); ++i) {
      const Instruction& in = block_.code[i];
      if (in.opcode.empty()) continue;  // merged before
      const bool is_load = in.opcode == "ld" && !ordered(in);
      if (!is_load && !plain(in)) return;
      if (mergeable(in) && in.modifiers == like.modifiers && in.operands[1].reg == base &&
          !touched.test(static_cast<size_t>(in.operands[0].reg)))
        members_.push_back(i);
      registers_of(in, &writes, &reads);
      if (std::find(writes.begin(), writes.end(), base) != writes.end()) return;
      for (int r : writes) touched.set(static_cast<size_t>(r));
      for (int r : reads) touched.set(static_cast<size_t>(r));
    }
  }

  int64_t offset_of(size_t member) const { return block_.code[member].operands[1].integer; }

  // Merges `count` members one word apart from each other. False when there are none.
  bool take_run(size_t count) {
    std::sort(members_.begin(), members_.end(),
              [this](size_t a, size_t b) { return offset_of(a) < offset_of(b); });
    for (size_t i = 0; i + count <= members_.size(); ++i) {
      bool in_row = true;
      for (size_t j = 1; j < count; ++j) {
        in_row = in_row && offset_of(members_[i + j]) ==
                               offset_of(members_[i]) + static_cast<int64_t>(j * kBytes);
      }
      if (!in_row) continue;
      merge(i, count);
      return true;
    }
    return false;
  }

  void merge(size_t from, size_t count) {
    const auto first = members_.begin() + static_cast<ptrdiff_t>(from);
    const auto last = first + static_cast<ptrdiff_t>(count);
    Instruction wide = block_.code[*first];
    wide.modifiers.insert(wide.modifiers.end() - 1, count == 4 ? "v4" : "v2");
    Operand parts;
    parts.kind = Operand::Kind::kVector;
    for (auto m = first; m != last; ++m) parts.elements.push_back(block_.code[*m].operands[0]);
    wide.operands[0] = parts;
    const size_t place = *std::min_element(first, last);
    for (auto m = first; m != last; ++m) block_.code[*m].opcode.clear();
    block_.code[place] = std::move(wide);
    members_.erase(first, last);
  }

  static constexpr uint32_t kBytes = 4;

  Kernel& k_;
  Block& block_;
  std::vector<size_t> members_;
};

}  // namespace

void merge_loads(Kernel* kernel) {
  for (Block& block : kernel->blocks) {
    if (block.reachable && block.hot) Merging(kernel, &block).run();
  }
}

}  // namespace vgpu::softgpu
