// Kernels whose lanes are better run one after the other: each walks a row of its own, of its own
// length, through memory. A warp would go on until its longest row ends, and every word would be a
// gather. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>

#include "softgpu/passes/kernel.h"

namespace vgpu::softgpu {
namespace {

using ptx::Instruction;
using ptx::Operand;

constexpr size_t kInstructionsMax = 400;  // of the kernel: its code is one loop around all of it
constexpr int kWorkMax = 6;               // other instructions a gather: more gain by vectors

// What a thread that runs alone does as it would among others. Sorted.
constexpr std::array<std::string_view, 34> kAlike = {
    "abs", "add",  "and",  "bra",  "brev", "clz", "cnot", "cvt",  "cvta", "div", "exit", "fma",
    "ld",  "lop3", "mad",  "max",  "min",  "mov", "mul",  "neg",  "not",  "or",  "popc", "prmt",
    "rem", "ret",  "selp", "setp", "shf",  "shl", "shr",  "sqrt", "sub",  "xor"};
static_assert(std::is_sorted(kAlike.begin(), kAlike.end()));

bool is_plain_memory(const Instruction& in) {
  return (in.has("global") || in.has("param") || in.has("const")) && !in.has("volatile") &&
         !in.has("relaxed") && !in.has("acquire") && !in.has("release") && !in.has("mmio");
}

bool is_alike(const Operand& o) {
  if (o.kind == Operand::Kind::kSpecial) {
    return o.symbol.starts_with("%tid") || o.symbol.starts_with("%ntid") ||
           o.symbol.starts_with("%ctaid") || o.symbol.starts_with("%nctaid");
  }
  return std::all_of(o.elements.begin(), o.elements.end(), is_alike);
}

bool is_alike(const Instruction& in) {
  const bool stores = in.opcode == "st";
  if (!stores && !std::binary_search(kAlike.begin(), kAlike.end(), in.opcode)) return false;
  if ((stores || in.opcode == "ld") && !is_plain_memory(in)) return false;
  return std::all_of(in.operands.begin(), in.operands.end(),
                     [](const Operand& o) { return is_alike(o); });
}

class RaggedRows {
 public:
  explicit RaggedRows(const Kernel& k) : k_(k) {}

  bool found() const {
    size_t instructions = 0;
    bool any = false;
    for (size_t b = 0; b < k_.blocks.size(); ++b) {
      const Block& block = k_.blocks[b];
      if (!block.reachable) continue;
      instructions += block.code.size();
      if (block.spins || block.parks || instructions > kInstructionsMax) return false;
      if (!std::all_of(block.code.begin(), block.code.end(),
                       [](const Instruction& in) { return is_alike(in); }))
        return false;
      for (const int s : block.successors) {
        if (s > static_cast<int>(b) || !is_innermost(s, static_cast<int>(b))) continue;
        if (!walks_a_row(s, static_cast<int>(b))) return false;
        any = true;
      }
    }
    return any;
  }

 private:
  // By text order, as in hot_blocks.cc.
  bool is_innermost(int first, int last) const {
    for (int b = first; b <= last; ++b) {
      for (const int s : k_.blocks[static_cast<size_t>(b)].successors) {
        if (s <= b && s >= first && (s != first || b != last)) return false;
      }
    }
    return true;
  }

  bool is_gather(const Instruction& in) const {
    if (in.opcode != "ld" || in.operands.size() < 2 || in.operands[1].reg < 0) return false;
    const auto base = static_cast<size_t>(in.operands[1].reg);
    return k_.divergent[base] && k_.stride[base] == Kernel::kNotAffine;
  }

  // Blocks first..last are a loop: lanes leave it at different times and nowhere else part, nearly
  // all that it does is to gather, and where it goes next does not depend on what it has read. (To
  // chase pointers is worth doing for 32 lanes at a time.)
  bool walks_a_row(int first, int last) const {
    int gathers = 0, work = 0;
    bool parts = false;
    for (int b = first; b <= last; ++b) {
      const Block& block = k_.blocks[static_cast<size_t>(b)];
      if (k_.divergent_exit[static_cast<size_t>(b)]) {
        const bool leaves = std::any_of(block.successors.begin(), block.successors.end(),
                                        [&](int s) { return s < first || s > last; });
        if (!leaves) return false;
        parts = true;
      }
      for (const Instruction& in : block.code) {
        if (in.opcode == "st") return false;
        if (is_gather(in)) {
          ++gathers;
        } else if (in.opcode == "ld") {
          return false;
        } else {
          ++work;
        }
      }
    }
    return parts && gathers != 0 && work <= kWorkMax * gathers && !chases(first, last);
  }

  bool chases(int first, int last) const {
    const BitSet read = spread(
        first, last, [](const Instruction& in) { return in.opcode == "ld"; },
        BitSet(k_.function.registers.size()));
    const BitSet& carried = k_.live_in[static_cast<size_t>(first)];
    BitSet from_before(k_.function.registers.size());
    for (size_t r = 0; r < k_.function.registers.size(); ++r) {
      if (read.test(r) && carried.test(r) && is_written(first, last, static_cast<int>(r)))
        from_before.set(r);
    }
    const BitSet led = spread(
        first, last, [](const Instruction&) { return false; }, from_before);
    bool chases = false;
    for_each(first, last, [&](const Instruction& in) {
      chases |= in.opcode == "ld" && led.test(static_cast<size_t>(in.operands[1].reg));
    });
    return chases;
  }

  // Registers that depend on what some instructions of the loop write, or on `from`.
  template <typename Source>
  BitSet spread(int first, int last, Source is_source, BitSet from) const {
    for (bool changed = true; changed;) {
      changed = false;
      std::vector<int> writes, reads;
      for_each(first, last, [&](const Instruction& in) {
        registers_of(in, &writes, &reads);
        const bool depends = is_source(in) || std::any_of(reads.begin(), reads.end(), [&](int r) {
                               return from.test(static_cast<size_t>(r));
                             });
        for (const int w : writes) {
          if (!depends || from.test(static_cast<size_t>(w))) continue;
          from.set(static_cast<size_t>(w));
          changed = true;
        }
      });
    }
    return from;
  }

  bool is_written(int first, int last, int r) const {
    std::vector<int> writes, reads;
    bool written = false;
    for_each(first, last, [&](const Instruction& in) {
      registers_of(in, &writes, &reads);
      written |= std::find(writes.begin(), writes.end(), r) != writes.end();
    });
    return written;
  }

  template <typename Visit>
  void for_each(int first, int last, Visit visit) const {
    for (int b = first; b <= last; ++b) {
      for (const Instruction& in : k_.blocks[static_cast<size_t>(b)].code) visit(in);
    }
  }

  const Kernel& k_;
};

}  // namespace

void find_ragged_rows(Kernel* k) {
  const bool local = k->function.local_bytes != 0 || k->stack_bytes != 0 || k->stack_dynamic;
  k->lane_by_lane = !local && RaggedRows(*k).found();
  if (!k->lane_by_lane) return;
  const size_t registers = k->function.registers.size();
  k->divergent.assign(registers, false);
  k->divergent_exit.assign(k->blocks.size(), false);
  k->frontier.assign(k->blocks.size(), BitSet(k->blocks.size()));
  k->masked.assign(k->blocks.size(), BitSet(registers));
  k->stride.assign(registers, 0);
  k->row_stride.clear();
}

}  // namespace vgpu::softgpu
