// Which blocks are worth more code: innermost loops, and all of small kernels. Also atomics whose
// old value nobody wants. SPDX-License-Identifier: Apache-2.0
#include "softgpu/passes/kernel.h"

namespace vgpu::softgpu {
namespace {

constexpr size_t kSmallKernel = 160;   // PTX instructions: everything may be inlined
constexpr size_t kLargeKernel = 1500;  // nothing may

struct Loop {
  int first, last;
};

// By text order: compilers write the blocks of a loop one after the other.
std::vector<Loop> loops_of(const Kernel& k) {
  std::vector<Loop> loops;
  for (size_t b = 0; b < k.blocks.size(); ++b) {
    if (!k.blocks[b].reachable) continue;
    for (int s : k.blocks[b].successors) {
      if (s <= static_cast<int>(b)) loops.push_back({s, static_cast<int>(b)});
    }
  }
  return loops;
}

bool innermost(const Loop& loop, const std::vector<Loop>& all) {
  for (const Loop& other : all) {
    const bool inside = other.first >= loop.first && other.last <= loop.last;
    if (inside && (other.first != loop.first || other.last != loop.last)) return false;
  }
  return true;
}

}  // namespace

void mark_hot_blocks(Kernel* k) {
  size_t instructions = 0;
  for (const Block& block : k->blocks) instructions += block.code.size();
  for (Block& block : k->blocks) block.hot = instructions <= kSmallKernel;
  if (instructions >= kLargeKernel) return;
  const std::vector<Loop> loops = loops_of(*k);
  for (const Loop& loop : loops) {
    if (!innermost(loop, loops)) continue;
    for (int b = loop.first; b <= loop.last; ++b) k->blocks[static_cast<size_t>(b)].hot = true;
  }
}

// nvcc writes atom even where the old value is thrown away: that is a reduction, which needs no
// result and is nothing that a loop could wait with.
void drop_unused_results(Kernel* k) {
  std::vector<int> reads_of(k->function.registers.size(), 0);
  std::vector<int> writes, reads;
  for (const Block& block : k->blocks) {
    for (const ptx::Instruction& in : block.code) {
      registers_of(in, &writes, &reads);
      for (int r : reads) ++reads_of[static_cast<size_t>(r)];
    }
  }
  for (Block& block : k->blocks) {
    for (ptx::Instruction& in : block.code) {
      if (in.opcode != "atom" || in.operands.empty() || in.has("cas") || in.has("exch")) continue;
      const ptx::Operand& d = in.operands[0];
      const bool unused = d.kind == ptx::Operand::Kind::kSink ||
                          (d.kind == ptx::Operand::Kind::kRegister && d.second < 0 &&
                           reads_of[static_cast<size_t>(d.reg)] == 0);
      if (!unused) continue;
      in.opcode = "red";
      in.operands.erase(in.operands.begin());
    }
  }
}

}  // namespace vgpu::softgpu
