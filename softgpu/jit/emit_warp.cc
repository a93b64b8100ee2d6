// Operations across the lanes of the warp.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"
#include "softgpu/jit/runtime.h"

namespace vgpu::softgpu {

// shfl.sync.mode.b32 d[|p], a, b, c, membermask
void Emitter::shuffle(const Instruction& in) {
  const uint32_t mode = in.has("up")     ? 0
                        : in.has("down") ? 1
                        : in.has("bfly") ? 2
                        : in.has("idx")  ? 3
                                         : 4;
  if (mode == 4) return unsupported(in);
  const Type t{'b', 32};
  if (shuffle_by_constants(in, mode)) return;
  Value *a = spill(get(in.operands[1], t)), *lane = spill(get(in.operands[2], t)),
        *clamp = spill(get(in.operands[3], t));
  auto* out = stack_slot(vector_of(int_type(32)));
  Value* valid = call_helper("sg_shuffle", int_type(32), {i32(mode), a, lane, clamp, out});
  const Operand& d = in.operands[0];
  Value* result = unspill(out, int_type(32));
  if (d.kind == Operand::Kind::kRegister && scalar_register(d.reg)) {
    // The operands are uniform: so is what any running lane got.
    Value* first = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, mask_, b_.getFalse());
    result = b_.CreateExtractElement(result, first);
  }
  set(d, result);
  if (d.second >= 0) {
    Value* p = mask_vector(valid);
    if (scalar_register(d.second)) {
      Value* first = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, mask_, b_.getFalse());
      p = b_.CreateExtractElement(p, first);
    }
    set_register(d.second, p);
  }
}

// Where lane and clamp operands are known, the whole shuffle is one permutation.
bool Emitter::shuffle_by_constants(const Instruction& in, uint32_t mode) {
  const Operand &d = in.operands[0], &b = in.operands[2], &c = in.operands[3];
  const std::optional<int64_t> offset = kernel_.constant(b), clamp = kernel_.constant(c);
  const bool known = offset && clamp && variant_.lanes == kWarpLanes &&
                     d.kind == Operand::Kind::kRegister && !scalar_register(d.reg) &&
                     (d.second < 0 || !scalar_register(d.second));
  if (!known) return false;
  std::vector<int> from;
  uint32_t valid = 0;
  for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    bool inside = false;
    from.push_back(static_cast<int>(shuffle_source(mode, lane, static_cast<uint32_t>(*offset),
                                                   static_cast<uint32_t>(*clamp), &inside)));
    if (inside) valid |= 1u << lane;
  }
  Value* a = splat(get(in.operands[1], {'b', 32}));
  set(d, b_.CreateShuffleVector(a, from));
  if (d.second >= 0) set_register(d.second, mask_vector(i32(valid)));
  return true;
}

// vote.sync.{all,any,uni}.pred d, p, mask;  vote.sync.ballot.b32 d, p, mask
void Emitter::vote(const Instruction& in) {
  Value* members = mask_;
  if (in.operands.size() > 2) {
    Value* m = member_operand(in);
    if (is_vector(m)) return collective_now(in);
    members = b_.CreateAnd(mask_, m);
  }
  Value* votes = b_.CreateAnd(mask_bits(predicate(in.operands[1])), members);
  Value* none = b_.CreateICmpEQ(votes, i32(0));
  Value* all = b_.CreateICmpEQ(votes, members);
  Value* r = in.has("ballot") ? votes
             : in.has("all")  ? all
             : in.has("any")  ? b_.CreateNot(none)
                              : b_.CreateOr(all, none);
  set(in.operands[0], r);
}

void Emitter::activemask(const Instruction& in) { set(in.operands[0], mask_); }

// match.any.sync.type d, a, mask;  match.all.sync.type d[|p], a, mask
void Emitter::match(const Instruction& in) { collective_now(in); }

// elect.sync d|p, mask: the lowest lane
void Emitter::elect(const Instruction& in) { collective_now(in); }

// redux.sync.op.type d, a, mask
void Emitter::redux(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t) || t.is_float()) return unsupported(in);
  Value* members = member_operand(in);
  if (is_vector(members)) return collective_now(in);
  Value* a = splat(get(in.operands[1], t));
  const bool s = t.kind == 's';
  uint64_t neutral = 0;
  llvm::Intrinsic::ID op = llvm::Intrinsic::vector_reduce_add;
  if (in.has("min"))
    op = s ? llvm::Intrinsic::vector_reduce_smin : llvm::Intrinsic::vector_reduce_umin,
    neutral = s ? 0x7fffffff : 0xffffffff;
  else if (in.has("max"))
    op = s ? llvm::Intrinsic::vector_reduce_smax : llvm::Intrinsic::vector_reduce_umax,
    neutral = s ? 0x80000000 : 0;
  else if (in.has("and"))
    op = llvm::Intrinsic::vector_reduce_and, neutral = 0xffffffff;
  else if (in.has("or"))
    op = llvm::Intrinsic::vector_reduce_or;
  else if (in.has("xor"))
    op = llvm::Intrinsic::vector_reduce_xor;
  a = b_.CreateSelect(mask_vector(b_.CreateAnd(mask_, members)), a, splat(i32(neutral)));
  set(in.operands[0], b_.CreateUnaryIntrinsic(op, a));
}

// bar.warp.sync where all named lanes are here: they run in step, and memory is in order. bar.sync
// and bar.red end their blocks and do not come here.
void Emitter::warp_barrier(const Instruction& in) {
  if (in.has("warp")) {
    b_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent, llvm::SyncScope::SingleThread);
    return;
  }
  if (in.has("arrive")) return barrier_arrive(in);
  unsupported(in);
}

}  // namespace vgpu::softgpu
