// Liveness, thread frontiers and divergence. Frontiers and divergence depend on each other: a
// fixpoint of both. SPDX-License-Identifier: Apache-2.0
#include "softgpu/passes/isolate_syncs.h"
#include "softgpu/passes/kernel.h"

namespace vgpu::softgpu {

using ptx::Instruction;
using ptx::Operand;

void find_liveness(Kernel* k) {
  const size_t registers = k->function.registers.size();
  std::vector<BitSet> use(k->blocks.size(), BitSet(registers)),
      define(k->blocks.size(), BitSet(registers));
  std::vector<int> writes, reads;
  for (size_t b = 0; b < k->blocks.size(); ++b) {
    for (const Instruction& in : k->blocks[b].code) {
      registers_of(in, &writes, &reads);
      for (int r : reads) {
        if (!define[b].test(r)) use[b].set(r);
      }
      for (int r : writes) {
        if (in.guard < 0)
          define[b].set(r);
        else if (!define[b].test(r))
          use[b].set(r);  // a guarded write keeps the old value in some lanes
      }
    }
  }
  k->live_in = use;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = k->blocks.size(); b-- > 0;) {
      BitSet out(registers);
      for (int s : k->blocks[b].successors) out.merge(k->live_in[s]);
      for (size_t r = 0; r < registers; ++r) {
        if (out.test(r) && !define[b].test(r) && !k->live_in[b].test(r)) {
          k->live_in[b].set(r);
          changed = true;
        }
      }
    }
  }
}

namespace {

class Divergence {
 public:
  Divergence(Kernel* k, const Variant& variant) : k_(k), variant_(variant) {}

  void run() {
    const size_t registers = k_->function.registers.size();
    k_->divergent.assign(registers, false);
    k_->divergent_exit.assign(k_->blocks.size(), false);
    k_->frontier.assign(k_->blocks.size(), BitSet(k_->blocks.size()));
    find_gathering();
    find_thread_indices();
    for (Block& block : k_->blocks) block.parks = false;
    parking_ = BitSet(k_->blocks.size());
    for (changed_ = true; changed_;) {
      changed_ = false;
      for (size_t b = 0; b < k_->blocks.size(); ++b) {
        if (k_->blocks[b].reachable) visit(static_cast<int>(b));
      }
      spread_frontiers();
      mask_writes();
    }
  }

 private:
  bool special_diverges(const std::string& name) const {
    if (name == "%tid.x" || name.rfind("%lane", 0) == 0) return true;
    return !variant_.full_rows() && (name == "%tid.y" || name == "%tid.z");
  }

  bool operand_diverges(const Operand& o) const {
    if (o.kind == Operand::Kind::kSpecial) return special_diverges(o.symbol);
    if (o.reg >= 0 && k_->divergent[o.reg]) return true;
    if (!o.symbol.empty()) {  // each lane has its own local memory
      auto v = k_->function.variables.find(o.symbol);
      if (v != k_->function.variables.end() && v->second.space == ptx::Space::kLocal) return true;
    }
    for (const Operand& e : o.elements) {
      if (operand_diverges(e)) return true;
    }
    return false;
  }

  bool result_diverges(const Instruction& in, int b) const {
    // Lanes that park get their results at different times, unless the operation is for all.
    if (in.opcode == "atom" || (k_->blocks[b].parks && !gathers_[b])) return true;
    if (in.opcode == "ld" && in.has("local")) return true;
    if (in.opcode == "vote" || in.opcode == "activemask" || in.opcode == "redux" ||
        in.opcode == "barrier" || in.opcode == "bar") {
      if (in.guard >= 0 && k_->divergent[in.guard]) return true;
      return in.opcode[0] != 'b' && in.operands.size() > 2 && operand_diverges(in.operands[2]);
    }
    // Whether a lane's source is in range depends on the lane, whatever the operands are.
    if (in.opcode == "shfl" && in.operands[0].second >= 0) return true;
    if (in.opcode == "elect" || in.opcode == "call" || in.opcode == "frame") return true;
    if (in.opcode == "mma" || in.opcode == "wmma" || in.opcode == "ldmatrix" ||
        in.opcode == "movmatrix" || in.opcode == "mbarrier") {
      return true;  // each lane has other elements; each arrival has its own state
    }
    if (in.guard >= 0 && k_->divergent[in.guard]) return true;
    if (same_in_warp(in)) return false;
    for (size_t i = 1; i < in.operands.size(); ++i) {
      if (operand_diverges(in.operands[i])) return true;
    }
    return false;
  }

  void set_divergent(int r) {
    if (k_->divergent[r]) return;
    k_->divergent[r] = true;
    changed_ = true;
  }

  void visit(int b) {
    std::vector<int> writes, reads;
    for (const Instruction& in : k_->blocks[b].code) {
      registers_of(in, &writes, &reads);
      if (!writes.empty() && result_diverges(in, b)) {
        for (int r : writes) set_divergent(r);
      }
    }
    const Instruction& last = k_->blocks[b].code.back();
    const bool splits = (last.guard >= 0 && k_->divergent[last.guard] &&
                         (last.opcode == "bra" || last.opcode == "ret" || last.opcode == "exit")) ||
                        (last.opcode == "switch" && operand_diverges(last.operands[0]));
    if (splits && !k_->divergent_exit[b]) {
      k_->divergent_exit[b] = true;
      changed_ = true;
    }
  }

  void wait_in(int waiting, int while_running) {
    if (waiting == while_running || k_->frontier[while_running].test(waiting)) return;
    k_->frontier[while_running].set(waiting);
    changed_ = true;
  }

  // Blocks that end in an operation for the whole warp or the whole block: it is over for all lanes
  // that are left at once, so none waits elsewhere behind it.
  void find_gathering() {
    std::vector<int> writes, reads, written(k_->function.registers.size(), 0);
    std::vector<bool> full(k_->function.registers.size(), false);
    for (const Block& block : k_->blocks) {
      for (const Instruction& in : block.code) {
        registers_of(in, &writes, &reads);
        for (int r : writes) {
          ++written[r];
          full[r] = in.opcode == "mov" && in.guard < 0 && is_full(in.operands[1]);
        }
      }
    }
    gathers_.assign(k_->blocks.size(), false);
    for (size_t b = 0; b < k_->blocks.size(); ++b) {
      const Instruction& in = k_->blocks[b].code.back();
      if (in.guard >= 0) continue;
      const size_t reduces = in.has("red") ? 2 : 0;
      const Operand* const members = in.operands.empty() ? nullptr : &in.operands.back();
      // No count of threads; and lanes may come to a cluster's barrier when it is open already.
      if (sync_kind(in) == SyncKind::kBarrier)
        gathers_[b] = in.operands.size() - reduces <= 1 && !in.has("cluster");
      else if (sync_kind(in) == SyncKind::kWarp && members != nullptr)
        gathers_[b] = is_full(*members) || (members->kind == Operand::Kind::kRegister &&
                                            written[members->reg] == 1 && full[members->reg]);
    }
  }

  // Registers that hold %tid.x and nothing else, where rows of threads are whole warps.
  void find_thread_indices() {
    std::vector<int> writes, reads, written(k_->function.registers.size(), 0);
    is_index_.assign(k_->function.registers.size(), false);
    if (!variant_.full_rows()) return;
    for (const Block& block : k_->blocks) {
      for (const Instruction& in : block.code) {
        registers_of(in, &writes, &reads);
        for (int r : writes) {
          is_index_[r] = ++written[r] == 1 && in.opcode == "mov" && in.guard < 0 &&
                         in.operands[1].kind == Operand::Kind::kSpecial &&
                         in.operands[1].symbol == "%tid.x";
        }
      }
    }
  }

  // %tid.x compared with, or shifted by, what does not tell the threads of one warp apart.
  bool same_in_warp(const Instruction& in) const {
    if (in.operands.size() != 3) return false;
    const Operand &x = in.operands[1], &c = in.operands[2];
    if (x.kind != Operand::Kind::kRegister || !is_index_[x.reg] || x.negated ||
        c.kind != Operand::Kind::kInteger || c.integer < 0) {
      return false;
    }
    if (in.opcode == "shr") return c.integer >= 5;
    if (in.opcode != "setp" || in.operands[0].second >= 0) return false;
    const bool below = in.has("lt") || in.has("lo") || in.has("ge") || in.has("hs");
    const bool up_to = in.has("le") || in.has("ls") || in.has("gt") || in.has("hi");
    return (below && c.integer % 32 == 0) || (up_to && c.integer % 32 == 31);
  }

  static bool is_full(const Operand& o) {
    return o.kind == Operand::Kind::kInteger && static_cast<uint32_t>(o.integer) == 0xffffffffu;
  }

  // Lanes that wait at `b` for others let all of those run; they stay whatever their place.
  void mark_parking(size_t b) {
    Block& block = k_->blocks[b];
    if (block.parks || block.code.size() != 1) return;
    const Instruction& in = block.code[0];
    if (sync_kind(in) == SyncKind::kNone) return;
    block.parks = !k_->frontier[b].empty() || (in.guard >= 0 && k_->divergent[in.guard]);
    if (!block.parks) return;
    parking_.set(b);
    changed_ = true;
  }

  // After block b control goes to the lowest block with pending lanes; the others wait meanwhile.
  void spread(const BitSet& pending, bool any_first) {
    BitSet everywhere = pending;  // those that may wait whatever their place
    if (!any_first) everywhere.intersect(parking_);
    pending.for_each([&](size_t x) {
      changed_ = k_->frontier[x].merge_around(x, everywhere, pending) || changed_;
    });
  }

  void spread_behind_gathering(size_t b, const BitSet& waiting) {
    const Block& block = k_->blocks[b];
    BitSet after(k_->blocks.size());
    after.set(static_cast<size_t>(block.next));
    waiting.for_each([&](size_t x) {
      wait_in(static_cast<int>(b), static_cast<int>(x));
      // Others of its kind may go on at the same time.
      const Block& other = k_->blocks[x];
      if (other.parks && sync_kind(other.code[0]) == sync_kind(block.code[0]))
        after.set(static_cast<size_t>(other.next));
    });
    spread(waiting, false);
    spread(after, false);
  }

  void spread_frontiers() {
    for (size_t b = 0; b < k_->blocks.size(); ++b) {
      const Block& block = k_->blocks[b];
      if (!block.reachable) continue;
      mark_parking(b);  // at once: what waits here must not leak behind it
      const BitSet waiting = k_->frontier[b];
      if (block.parks && gathers_[b]) {
        spread_behind_gathering(b, waiting);
        continue;
      }
      // Spinning loops let the others run first now and then.
      const bool any_first = block.spins || block.parks;
      if (k_->divergent_exit[b] || block.parks) {
        BitSet all = waiting;
        if (block.parks) all.set(b);
        for (int s : block.successors) all.set(static_cast<size_t>(s));
        spread(all, any_first);
        continue;
      }
      if (block.successors.empty()) spread(waiting, any_first);
      for (int s : block.successors) {
        BitSet some = waiting;
        some.set(static_cast<size_t>(s));
        spread(some, any_first);
      }
    }
  }

  // A write in b to what a waiting lane still needs must spare that lane, and makes the register
  // divergent.
  void mask_writes() {
    const size_t registers = k_->function.registers.size();
    k_->masked.assign(k_->blocks.size(), BitSet(registers));
    std::vector<int> writes, reads;
    for (size_t b = 0; b < k_->blocks.size(); ++b) {
      if (!k_->blocks[b].reachable || k_->frontier[b].empty()) continue;
      BitSet needed(registers);
      k_->frontier[b].for_each([&](size_t x) { needed.merge(k_->live_in[x]); });
      for (const Instruction& in : k_->blocks[b].code) {
        registers_of(in, &writes, &reads);
        for (int r : writes) {
          if (!needed.test(r)) continue;
          k_->masked[b].set(r);
          set_divergent(r);
        }
      }
    }
  }

  Kernel* k_;
  Variant variant_;
  std::vector<bool> gathers_, is_index_;
  BitSet parking_;  // blocks that park
  bool changed_ = false;
};

}  // namespace

void analyse(Kernel* kernel, const Variant& variant) {
  do {
    find_liveness(kernel);
    Divergence(kernel, variant).run();
  } while (isolate_syncs(kernel));
  find_affine(kernel, variant);
  mark_hot_blocks(kernel);
  // Profiles count what the program says; strict code checks each access as it is written.
  const bool as_written = variant.lanes != 32 || variant.profile || variant.strict;
  if (as_written) return;
  if (!variant.clustered) find_ragged_rows(kernel);
  if (!kernel->lane_by_lane) merge_loads(kernel);
}

}  // namespace vgpu::softgpu
