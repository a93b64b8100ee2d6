// Cuts a function into basic blocks.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "softgpu/passes/call_graph.h"
#include "softgpu/passes/inline_calls.h"
#include "softgpu/passes/kernel.h"
#include "softgpu/passes/lower_calls.h"

namespace vgpu::softgpu {
namespace {

using ptx::Instruction;
using ptx::Operand;

// Lanes that run it do not go on behind it.
bool leaves(const Instruction& in) {
  static const std::set<std::string> kOpcodes = {"bra", "ret", "exit", "trap", "brkpt", "switch"};
  return kOpcodes.count(in.opcode) != 0;
}

bool ends_block(const Instruction& in) { return leaves(in) || sync_kind(in) == SyncKind::kBarrier; }

std::set<size_t> leaders(const ptx::Function& f) {
  std::set<size_t> starts{0};
  for (const auto& [label, index] : f.labels) starts.insert(static_cast<size_t>(index));
  for (size_t i = 0; i < f.body.size(); ++i) {
    if (ends_block(f.body[i])) starts.insert(i + 1);
  }
  starts.erase(starts.lower_bound(f.body.size()), starts.end());
  return starts;
}

void add_registers(const Operand& o, std::vector<int>* list) {
  if (o.reg >= 0) list->push_back(o.reg);
  if (o.second >= 0) list->push_back(o.second);
  for (const Operand& e : o.elements) add_registers(e, list);
}

void collect_successors(Block* block) {
  block->successors.clear();
  for (int s : {block->branch, block->next}) {
    if (s >= 0) block->successors.push_back(s);
  }
  for (const auto& [value, target] : block->cases) block->successors.push_back(target);
  std::sort(block->successors.begin(), block->successors.end());
  block->successors.erase(std::unique(block->successors.begin(), block->successors.end()),
                          block->successors.end());
}

// Which blocks follow; the end of the body is an exit.
void link(Kernel* k, const std::set<size_t>& starts, const std::map<std::string, int>& labels) {
  std::vector<size_t> begin(starts.begin(), starts.end());
  auto block_at = [&](int index) {
    auto it = std::lower_bound(begin.begin(), begin.end(), static_cast<size_t>(index));
    return it == begin.end() ? -1 : static_cast<int>(it - begin.begin());
  };
  for (size_t b = 0; b < k->blocks.size(); ++b) {
    Block& block = k->blocks[b];
    const Instruction* last = block.code.empty() ? nullptr : &block.code.back();
    const bool all_leave = last != nullptr && last->guard < 0 && leaves(*last);
    if (last != nullptr && last->opcode == "bra")
      block.branch = block_at(labels.at(last->operands[0].symbol));
    if (last != nullptr && last->opcode == "switch") {
      for (const Operand& label : last->operands[1].elements)
        block.cases.emplace_back(label.integer, block_at(labels.at(label.symbol)));
    }
    if (!all_leave && b + 1 < k->blocks.size()) block.next = static_cast<int>(b) + 1;
  }
}

void mark_reachable(Kernel* k) {
  std::vector<int> work{0};
  while (!work.empty()) {
    const int b = work.back();
    work.pop_back();
    if (k->blocks[b].reachable) continue;
    k->blocks[b].reachable = true;
    for (int s : k->blocks[b].successors) work.push_back(s);
  }
}

// What other threads write can show in the result: atomics, volatile and ordered loads, and between
// fences every load.
bool sees_others(const Instruction& in, bool fenced) {
  if (in.opcode == "atom") return true;
  return in.opcode == "ld" && !in.has("param") &&
         (fenced || in.has("volatile") || in.has("relaxed") || in.has("acquire"));
}

// Whether the loop of blocks [first, last] may wait for other threads: a branch in it depends on
// what it sees of them.
class SpinSearch {
 public:
  SpinSearch(const Kernel& k, int first, int last) : k_(k), first_(first), last_(last) {}

  // Calls are jumps to the functions' blocks, which come first.
  static bool is_call(const Block& block) { return block.code.back().has("call"); }

  bool run() {
    for (int b = first_; b <= last_; ++b) {
      for (int s : k_.blocks[b].successors)
        calls_ = calls_ || (s < first_ && is_call(k_.blocks[b]));
    }
    if (calls_) return callees_see_others();
    bool seeds = false, fence = false, barrier = false;
    each([&](const Instruction& in) {
      sleeps_ = sleeps_ || in.opcode == "nanosleep" || in.opcode == "mbarrier";
      seeds = seeds || in.opcode == "atom" || in.opcode == "ld";
      fence = fence || in.opcode == "membar" || in.opcode == "fence";
      barrier = barrier || sync_kind(in) == SyncKind::kBarrier;
    });
    if (sleeps_ || !seeds) return sleeps_;
    fenced_ = fence && !barrier;
    tainted_ = BitSet(k_.function.registers.size());
    while (spread()) {
    }
    bool found = false;
    each([&](const Instruction& in) {
      found = found || (in.opcode == "bra" && in.guard >= 0 && tainted_.test(in.guard));
    });
    return found;
  }

 private:
  // What functions return is in memory, where it is not followed: any of them may be waited for.
  bool callees_see_others() const {
    for (int b = 0; b <= last_; ++b) {
      for (const Instruction& in : k_.blocks[b].code) {
        if (sees_others(in, false) || in.opcode == "nanosleep") return true;
      }
    }
    return false;
  }

  template <typename F>
  void each(F f) const {
    for (int b = first_; b <= last_; ++b) {
      for (const Instruction& in : k_.blocks[b].code) f(in);
    }
  }

  bool spread() {
    bool grew = false;
    std::vector<int> writes, reads;
    each([&](const Instruction& in) {
      registers_of(in, &writes, &reads);
      bool taints = sees_others(in, fenced_);
      for (int r : reads) taints = taints || tainted_.test(r);
      for (int w : writes) {
        if (!taints || tainted_.test(w)) continue;
        tainted_.set(w);
        grew = true;
      }
    });
    return grew;
  }

  const Kernel& k_;
  const int first_, last_;
  bool sleeps_ = false, fenced_ = false, calls_ = false;
  BitSet tainted_;
};

void mark_spins(Kernel* k) {
  for (size_t b = 0; b < k->blocks.size(); ++b) {
    k->blocks[b].spins = false;
    for (int s : k->blocks[b].successors) {
      if (s > static_cast<int>(b) || k->blocks[b].spins) continue;
      if (SpinSearch::is_call(k->blocks[b])) continue;
      k->blocks[b].spins = SpinSearch(*k, s, static_cast<int>(b)).run();
    }
  }
}

}  // namespace

SyncKind sync_kind(const Instruction& in) {
  const std::string& op = in.opcode;
  if (op == "bar" || op == "barrier") {
    if (in.has("warp")) return SyncKind::kWarp;
    return in.has("arrive") ? SyncKind::kNone : SyncKind::kBarrier;
  }
  const bool collective =
      op == "shfl" || op == "vote" || op == "match" || op == "redux" || op == "elect";
  return collective && in.has("sync") ? SyncKind::kWarp : SyncKind::kNone;
}

void link_blocks(Kernel* k) {
  for (Block& block : k->blocks) {
    block.ends_in_barrier =
        !block.code.empty() && sync_kind(block.code.back()) == SyncKind::kBarrier;
    block.reachable = false;
    collect_successors(&block);
  }
  mark_reachable(k);
  mark_spins(k);
}

bool has_destination(const Instruction& in) {
  static const std::set<std::string> kNone = {"st",           "red",
                                              "bra",          "ret",
                                              "exit",         "trap",
                                              "brkpt",        "membar",
                                              "fence",        "nanosleep",
                                              "prefetch",     "prefetchu",
                                              "call",         "cp",
                                              "pmevent",      "griddepcontrol",
                                              "discard",      "sust",
                                              "sured",        "stmatrix",
                                              "setmaxnreg",   "applypriority",
                                              "switch",       "stackcheck",
                                              "stackrestore", "brx",
                                              "tensormap"};
  if (in.opcode == "wmma" && in.has("store")) return false;
  if (in.opcode == "clusterlaunchcontrol") return in.has("query_cancel");
  if (in.opcode == "mbarrier") {
    return !in.has("init") && !in.has("inval") && !in.has("complete_tx") &&
           (in.has("arrive") || in.has("arrive_drop") || !in.has("expect_tx"));
  }
  if (in.opcode == "bar" || in.opcode == "barrier") return in.has("red");
  return kNone.count(in.opcode) == 0;
}

void registers_of(const Instruction& in, std::vector<int>* writes, std::vector<int>* reads) {
  writes->clear();
  reads->clear();
  if (in.guard >= 0) reads->push_back(in.guard);
  size_t i = 0;
  if (has_destination(in) && !in.operands.empty()) {
    add_registers(in.operands[0], writes);
    i = 1;
  }
  if (in.opcode == "call") {  // results that are registers
    add_registers(in.operands[0], writes);
    i = 1;
  }
  for (; i < in.operands.size(); ++i) add_registers(in.operands[i], reads);
}

void cut_blocks(Kernel* kernel) {
  ptx::Function& f = kernel->function;
  if (f.body.empty()) {  // a kernel without instructions still returns
    Instruction ret;
    ret.opcode = "ret";
    f.body.push_back(ret);
  }
  const std::set<size_t> starts = leaders(f);
  for (auto it = starts.begin(); it != starts.end(); ++it) {
    const size_t end = std::next(it) == starts.end() ? f.body.size() : *std::next(it);
    Block block;
    block.code.assign(std::make_move_iterator(f.body.begin() + static_cast<long>(*it)),
                      std::make_move_iterator(f.body.begin() + static_cast<long>(end)));
    kernel->blocks.push_back(std::move(block));
  }
  link(kernel, starts, f.labels);
  f.body.clear();
  drop_unused_results(kernel);
  link_blocks(kernel);
}

bool build_kernel(const ptx::Module& module, const ptx::Function& function, Kernel* kernel,
                  Diagnostic* error) {
  kernel->name = function.name;
  kernel->module = &module;
  kernel->shared = shared_layout(module, function);
  kernel->function = function;
  const CallGraph graph(module);
  if (!inline_calls(module, graph, &kernel->function, error)) return false;
  if (!lower_calls(graph, kernel, error)) return false;
  cut_blocks(kernel);
  return true;
}

}  // namespace vgpu::softgpu
