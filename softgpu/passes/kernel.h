// A kernel on its way to machine code: basic blocks in text order, with what the analyses found.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "softgpu/exec/profile_counters.h"
#include "softgpu/passes/shared_layout.h"
#include "softgpu/ptx/ast.h"

namespace vgpu::softgpu {

// A set of small numbers: registers or blocks.
class BitSet {
 public:
  explicit BitSet(size_t size = 0) : words_((size + 63) / 64) {}
  bool test(size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void set(size_t i) { words_[i / 64] |= 1ull << (i % 64); }
  void clear(size_t i) { words_[i / 64] &= ~(1ull << (i % 64)); }
  // True when something was added.
  bool merge(const BitSet& other) {
    bool grew = false;
    for (size_t i = 0; i < words_.size(); ++i) {
      grew = grew || (other.words_[i] & ~words_[i]) != 0;
      words_[i] |= other.words_[i];
    }
    return grew;
  }
  bool empty() const {
    for (uint64_t w : words_) {
      if (w != 0) return false;
    }
    return true;
  }
  void intersect(const BitSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
  }
  // Adds `all`, and of `some` what is above `i`, but never `i` itself. True when something was
  // added.
  bool merge_around(size_t i, const BitSet& all, const BitSet& some) {
    uint64_t grew = 0;
    for (size_t w = 0; w < words_.size(); ++w) {
      const uint64_t own = w == i / 64 ? 1ull << (i % 64) : 0;
      const uint64_t above = w < i / 64 ? 0 : w == i / 64 ? ~(own | (own - 1)) : ~0ull;
      const uint64_t added = (all.words_[w] & ~own) | (some.words_[w] & above);
      grew |= added & ~words_[w];
      words_[w] |= added;
    }
    return grew != 0;
  }
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      for (uint64_t bits = words_[w]; bits != 0; bits &= bits - 1)
        visit(w * 64 + static_cast<size_t>(std::countr_zero(bits)));
    }
  }

 private:
  std::vector<uint64_t> words_;
};

// What an instruction makes its lanes wait for: nothing, lanes of the warp that a member mask
// names, or threads of the block, or of its cluster, at a barrier.
enum class SyncKind : uint8_t { kNone, kWarp, kBarrier };
SyncKind sync_kind(const ptx::Instruction& in);

struct Block {
  std::vector<ptx::Instruction> code;
  std::vector<int> successors;                 // ascending, each once
  std::vector<std::pair<int64_t, int>> cases;  // of a final switch: value and target
  int branch = -1;                             // target of the final bra
  int next = -1;  // where control falls through to; -1 after an unguarded exit or branch
  bool ends_in_barrier = false;
  bool reachable = false;
  bool hot = false;    // runs often, or is part of a small kernel: may become large code
  bool spins = false;  // has a back edge out of a loop that may wait for other threads
  // Holds nothing but an operation that waits, in divergent code: lanes may stay here while others
  // run any block. Set by the analyses.
  bool parks = false;
};

struct Kernel {
  std::string name;
  ptx::Function function;  // after inlining; its body has moved into the blocks
  const ptx::Module* module = nullptr;
  std::vector<Block> blocks;
  SharedLayout shared;
  uint32_t stack_bytes = 0;    // per thread, for calls whose depth is known
  bool stack_dynamic = false;  // recursion or alloca: as much again as the context allows

  // Analyses (analysis.cc). TF(b), the thread frontier: blocks where lanes of the warp may wait
  // while b runs.
  std::vector<BitSet> live_in;       // per block: registers
  std::vector<BitSet> frontier;      // per block: blocks
  std::vector<bool> divergent;       // per register: lanes may differ
  std::vector<bool> divergent_exit;  // per block: lanes may leave for different places
  std::vector<BitSet> masked;  // per block: registers whose writes must spare the lanes that wait
  // Affine registers: lane value = scalar + lane * stride. Uniform ones have stride 0 and are not
  // divergent.
  static constexpr int64_t kNotAffine = INT64_MIN;
  std::vector<int64_t> stride;
  // The same within each run of Variant::row lanes; where those are whole warps, or none, empty.
  std::vector<int64_t> row_stride;
  // The code runs one lane of the warp after the other: to each of them all registers are uniform,
  // and the analyses say so (ragged_rows.cc).
  bool lane_by_lane = false;
  // Registers that are written once, by a mov of a number.
  std::vector<std::optional<int64_t>> constants;
  // The number that an operand always is, if any.
  std::optional<int64_t> constant(const ptx::Operand& o) const {
    if (o.kind == ptx::Operand::Kind::kInteger) return o.integer;
    if (o.kind != ptx::Operand::Kind::kRegister || o.negated) return std::nullopt;
    return constants[static_cast<size_t>(o.reg)];
  }
};

// What the launch promises about the block's shape; each combination is a variant of the code.
struct Variant {
  // Of blockDim.x the greatest divisor that is 32, 16 or 8; 0: none of them. In each run of so many
  // lanes tid.x is affine, tid.y and tid.z are uniform.
  unsigned row = 0;
  // Lanes of a vector: 32, or 1 for a second opinion in tests, where every thread is run alone and
  // operations across the warp have no meaning.
  unsigned lanes = 32;
  bool profile = false;  // counts what it does
  bool strict = false;   // misaligned accesses are faults
  // Launched with clusters: shared addresses are places in the cluster's memory, and begin with the
  // rank of their block.
  bool clustered = false;
  bool full_rows() const { return row == 32; }
  bool operator==(const Variant&) const = default;
  // Different for different variants.
  std::string text() const {
    return std::to_string(row) + "r" + std::to_string(lanes) + (strict ? "s" : "") +
           (profile ? "p" : "") + (clustered ? "c" : "");
  }
};

// Registers that an instruction writes and reads (its guard is among the reads).
void registers_of(const ptx::Instruction& in, std::vector<int>* writes, std::vector<int>* reads);
bool has_destination(const ptx::Instruction& in);

// Inlines calls or turns them into jumps, and cuts the body into blocks. False and a diagnostic for
// undefined functions.
bool build_kernel(const ptx::Module& module, const ptx::Function& function, Kernel* kernel,
                  Diagnostic* error);
// Cuts kernel->function.body, which moves, into kernel->blocks.
void cut_blocks(Kernel* kernel);
// Fills kernel->live_in.
void find_liveness(Kernel* kernel);
// Which blocks follow from which, and what depends on it: reachability, loops that wait. For passes
// that changed the blocks.
void link_blocks(Kernel* kernel);
// Fills the analyses of `kernel` for one variant. Cuts blocks where lanes may have to park.
void analyse(Kernel* kernel, const Variant& variant);
// Parts of the above (hot_blocks.cc).
void mark_hot_blocks(Kernel* kernel);
void drop_unused_results(Kernel* kernel);
// Only where code may become large, like what merged loads become (merge_loads.cc).
void merge_loads(Kernel* kernel);
// What each block holds; for profiles.
std::vector<BlockMix> instruction_mix(const Kernel& kernel);
void find_affine(Kernel* kernel, const Variant& variant);
// Whether lanes are better run one after the other; then the analyses above are those of one.
void find_ragged_rows(Kernel* kernel);

}  // namespace vgpu::softgpu
