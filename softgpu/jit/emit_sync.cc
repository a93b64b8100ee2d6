// Barriers, and operations whose lanes may have to wait for others: those park at their block.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "softgpu/jit/emitter.h"
#include "softgpu/jit/sync_op.h"

namespace vgpu::softgpu {

using llvm::BasicBlock;

// bar.sync a{, b}; bar.red.op d, a{, b}, p; bar.arrive a, b; barrier.cta.…; barrier.cluster.…
Emitter::Barrier Emitter::barrier_operands(const Instruction& in) {
  Barrier r;
  const bool reduces = in.has("red");
  const size_t first = reduces ? 1 : 0;
  const size_t extra = in.operands.size() - first - (reduces ? 1 : 0);
  const Type t{'u', 32};
  r.id = extra > 0 ? get(in.operands[first], t) : i32(0);
  r.threads = extra > 1 ? get(in.operands[first + 1], t) : i32(0);
  r.votes = i32(0);
  r.op = in.has("cluster") ? kBarrierCluster : kBarrierSync;
  if (reduces) {
    r.op = in.has("popc") ? kBarrierPopc : in.has("and") ? kBarrierAnd : kBarrierOr;
    r.votes = b_.CreateAnd(mask_bits(predicate(in.operands.back())), mask_);
  }
  return r;
}

// A barrier that the whole warp reaches at once; its guard, if any, is uniform.
void Emitter::barrier_end(int b, const Instruction& in) {
  const int next = kernel_.blocks[b].next;
  const Barrier barrier = barrier_operands(in);
  if (is_vector(barrier.id) || is_vector(barrier.threads))
    return unsupported(in, "lanes that run together name different barriers");
  if (in.guard >= 0) {
    Value* p = register_value(in.guard);
    auto* wait = BasicBlock::Create(context_, "", function_);
    auto* pass = BasicBlock::Create(context_, "", function_);
    b_.CreateCondBr(in.guard_negated ? b_.CreateNot(p) : p, wait, pass);
    b_.SetInsertPoint(pass);
    if (next >= 0) add_pending(next, mask_);
    b_.CreateBr(next >= 0 ? blocks_[next] : finish_);
    b_.SetInsertPoint(wait);
  }
  set_context_field(offsetof(WarpContext, barrier_id), barrier.id);
  set_context_field(offsetof(WarpContext, barrier_threads), barrier.threads);
  set_context_field(offsetof(WarpContext, barrier_votes), barrier.votes);
  set_context_field(offsetof(WarpContext, barrier_op), i32(barrier.op));
  if (cluster_waits_) set_context_field(offsetof(WarpContext, alive), mask_);
  if (next < 0) {
    b_.CreateBr(finish_);
    return;
  }
  add_pending(next, mask_);
  suspend({next}, kWarpAtBarrier);
  if (in.has("red")) {
    Value* result = context_field(offsetof(WarpContext, barrier_result), int_type(32));
    if (barrier.op != kBarrierPopc) result = b_.CreateICmpNE(result, i32(0));
    mask_ = b_.CreateLoad(int_type(32), pending_[next]);
    set(in.operands[0], result);
  }
  b_.CreateBr(blocks_[next]);
}

void Emitter::barrier_arrive(const Instruction& in) {
  const Barrier barrier = barrier_operands(in);
  call_helper("sg_barrier", b_.getVoidTy(),
              {warp_, i32(barrier.op), i32(0), mask_, spill(barrier.id), spill(barrier.threads),
               barrier.votes});
}

Emitter::Value* Emitter::member_operand(const Instruction& in) {
  const size_t at = in.opcode == "shfl"                            ? 4
                    : in.opcode == "elect"                         ? 1
                    : in.opcode == "bar" || in.opcode == "barrier" ? 0
                                                                   : 2;
  if (at >= in.operands.size()) {
    unsupported(in, "no member mask");
    return i32(0);
  }
  return get(in.operands[at], {'b', 32});
}

uint32_t Emitter::collective_code(const Instruction& in) {
  if (in.opcode == "shfl") {
    return sync_code(SyncOp::kShuffle, in.has("up")     ? 0
                                       : in.has("down") ? 1
                                       : in.has("bfly") ? 2
                                                        : 3);
  }
  if (in.opcode == "vote") {
    const VoteMode mode = in.has("all")   ? VoteMode::kAll
                          : in.has("any") ? VoteMode::kAny
                          : in.has("uni") ? VoteMode::kUniform
                                          : VoteMode::kBallot;
    return sync_code(SyncOp::kVote, static_cast<uint32_t>(mode));
  }
  if (in.opcode == "match") return sync_code(SyncOp::kMatch, in.has("all") ? 1 : 0);
  if (in.opcode == "elect") return sync_code(SyncOp::kElect, 0);
  if (in.opcode != "redux") return sync_code(SyncOp::kBarrier, 0);
  Type t;
  if (!in.type_from_end(0, &t) || t.is_float()) unsupported(in);
  const bool s = t.kind == 's';
  const ReduceOp op = in.has("min")   ? (s ? ReduceOp::kMinSigned : ReduceOp::kMinUnsigned)
                      : in.has("max") ? (s ? ReduceOp::kMaxSigned : ReduceOp::kMaxUnsigned)
                      : in.has("and") ? ReduceOp::kAnd
                      : in.has("or")  ? ReduceOp::kOr
                      : in.has("xor") ? ReduceOp::kXor
                                      : ReduceOp::kAdd;
  return sync_code(SyncOp::kReduce, static_cast<uint32_t>(op));
}

// What the lanes bring, as pointers to 32 values: u64, u32, u32.
void Emitter::collective_operands(const Instruction& in, Value** value, Value** second,
                                  Value** third) {
  const Type word{'b', 32};
  Value* v = i32(0);
  *second = *third = i32(0);
  if (in.opcode == "shfl") {
    v = get(in.operands[1], word);
    *second = get(in.operands[2], word);
    *third = get(in.operands[3], word);
  } else if (in.opcode == "vote") {
    v = predicate(in.operands[1]);
  } else if (in.opcode == "match" || in.opcode == "redux") {
    Type t = word;
    in.type_from_end(0, &t);
    v = get(in.operands[1], {'b', t.bits});
  }
  *value = spill(as(v, int_type(64)));
  *second = spill(*second);
  *third = spill(*third);
}

// Writes what an operation gave: `value` <32 x i32>, `flags` i32.
void Emitter::collective_result(const Instruction& in, Value* value, Value* flags) {
  if ((in.opcode == "bar" || in.opcode == "barrier") && !in.has("red")) return;
  Value* first = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, mask_, b_.getFalse());
  const auto write = [&](int r, Value* v) {
    set_register(r, scalar_register(r) ? b_.CreateExtractElement(v, first) : v);
  };
  const Operand& d = in.operands[0];
  if (d.kind == Operand::Kind::kRegister && d.reg >= 0) {
    const bool is_predicate = kernel_.function.registers[d.reg].type.kind == 'p';
    write(d.reg, is_predicate ? mask_vector(flags) : value);
  }
  if (d.second >= 0) write(d.second, mask_vector(flags));
}

// The operation for lanes that are all here, whose member masks may differ.
void Emitter::collective_now(const Instruction& in) {
  Value *value, *second, *third;
  collective_operands(in, &value, &second, &third);
  auto* out = stack_slot(vector_of(int_type(32)));
  Value* flags = call_helper(
      "sg_sync_now", int_type(32),
      {i32(collective_code(in)), mask_, spill(member_operand(in)), value, second, third, out});
  collective_result(in, unspill(out, int_type(32)), flags);
}

// Lanes that wait in `blocks` for their turn or for others.
Emitter::Value* Emitter::waiting_lanes(const std::vector<int>& blocks) {
  Value* lanes = i32(0);
  for (int x : blocks) {
    lanes = b_.CreateOr(lanes, b_.CreateLoad(int_type(32), pending_[x]));
    if (kernel_.blocks[x].parks)
      lanes = b_.CreateOr(lanes, b_.CreateLoad(int_type(32), parked_[x]));
  }
  return lanes;
}

// The block of an operation that waits, where other lanes may be elsewhere.
void Emitter::park(int b, const Instruction& in) {
  const int next = kernel_.blocks[b].next;
  if (next < 0) return unsupported(in, "the last instruction of a function");
  const std::vector<int> waiting = frontier_of(b);
  Value* whole = mask_;
  auto* done = BasicBlock::Create(context_, "", function_);
  if (in.guard >= 0) {
    Value* p = register_value(in.guard);
    Value* bits = mask_bits(in.guard_negated ? b_.CreateNot(p) : p);
    add_pending(next, b_.CreateAnd(mask_, b_.CreateNot(bits)));
    mask_ = b_.CreateAnd(mask_, bits);
    guarded_ = true;
    auto* some = BasicBlock::Create(context_, "", function_);
    b_.CreateCondBr(b_.CreateICmpNE(mask_, i32(0)), some, done);
    b_.SetInsertPoint(some);
  }
  if (sync_kind(in) == SyncKind::kBarrier) {
    const Barrier barrier = barrier_operands(in);
    call_helper("sg_barrier", b_.getVoidTy(),
                {warp_, i32(barrier.op), i32(1), mask_, spill(barrier.id), spill(barrier.threads),
                 barrier.votes});
    b_.CreateStore(b_.CreateOr(b_.CreateLoad(int_type(32), parked_[b]), mask_), parked_[b]);
    b_.CreateBr(done);
  } else {
    park_warp_sync(b, in, waiting);
    b_.CreateBr(done);
  }
  b_.SetInsertPoint(done);
  mask_ = whole;
  guarded_ = false;
  go_on(b, waiting);
}

// Runs the operation at once when every lane that a member mask names is here or has left.
void Emitter::park_warp_sync(int b, const Instruction& in, const std::vector<int>& waiting) {
  const int next = kernel_.blocks[b].next;
  std::vector<int> places = waiting;
  places.push_back(b);
  places.push_back(next);
  Value* alive = b_.CreateOr(waiting_lanes(places), mask_);
  Value* members = member_operand(in);
  Value* named = members;
  if (is_vector(members)) {
    named = b_.CreateSelect(mask_vector(mask_), members, splat(i32(0)));
    named = b_.CreateUnaryIntrinsic(llvm::Intrinsic::vector_reduce_or, named);
  }
  Value* missing = b_.CreateAnd(b_.CreateAnd(named, alive), b_.CreateNot(mask_));
  auto* now = BasicBlock::Create(context_, "", function_);
  auto* later = BasicBlock::Create(context_, "", function_);
  auto* done = BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(b_.CreateICmpEQ(missing, i32(0)), now, later);
  b_.SetInsertPoint(later);
  Value *value, *second, *third;
  collective_operands(in, &value, &second, &third);
  Value* released = call_helper(
      "sg_sync_arrive", int_type(32),
      {warp_, i32(collective_code(in)), mask_, alive, spill(members), value, second, third});
  b_.CreateStore(b_.CreateOr(b_.CreateLoad(int_type(32), parked_[b]), mask_), parked_[b]);
  b_.CreateCondBr(b_.CreateICmpNE(released, i32(0)), wake_, done);
  b_.SetInsertPoint(now);
  emit_plain(in);
  add_pending(next, mask_);
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

// Parked lanes of block b that are released get their results and go on behind it.
void Emitter::deliver(int b, Value* released) {
  const Instruction& in = kernel_.blocks[b].code.back();
  auto* some = BasicBlock::Create(context_, "", function_);
  auto* none = BasicBlock::Create(context_, "", function_);
  Value* parked = b_.CreateLoad(int_type(32), parked_[b]);
  mask_ = b_.CreateAnd(parked, released);
  b_.CreateStore(b_.CreateAnd(parked, b_.CreateNot(released)), parked_[b]);
  b_.CreateCondBr(b_.CreateICmpNE(mask_, i32(0)), some, none);
  b_.SetInsertPoint(some);
  block_ = b;
  guarded_ = true;
  Value* sync = context_field(offsetof(WarpContext, sync), llvm::PointerType::get(context_, 0));
  const auto at = [&](size_t offset) {
    return b_.CreateConstInBoundsGEP1_64(int_type(8), sync, offset);
  };
  Value* value =
      b_.CreateAlignedLoad(vector_of(int_type(32)), at(offsetof(WarpSync, result)), llvm::Align(4));
  Value* flags = b_.CreateAlignedLoad(int_type(32), at(offsetof(WarpSync, flags)), llvm::Align(4));
  collective_result(in, value, flags);
  add_pending(kernel_.blocks[b].next, mask_);
  guarded_ = false;
  b_.CreateBr(none);
  b_.SetInsertPoint(none);
}

void Emitter::finish_parking() {
  std::vector<int> all;
  for (int p : parking_) {
    for (int x : frontier_of(p)) all.push_back(x);
    all.push_back(p);
    all.push_back(kernel_.blocks[p].next);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  b_.SetInsertPoint(wake_);
  Value* released = context_field(offsetof(WarpContext, released), int_type(32));
  set_context_field(offsetof(WarpContext, released), i32(0));
  for (int p : parking_) deliver(p, released);
  dispatch(all);
  b_.SetInsertPoint(settle_);
  auto* wait = BasicBlock::Create(context_, "parked", function_);
  auto* sleep = BasicBlock::Create(context_, "", function_);
  Value* parked = waiting_lanes(parking_);
  b_.CreateCondBr(b_.CreateICmpNE(parked, i32(0)), wait, finish_);
  b_.SetInsertPoint(wait);
  released = call_helper("sg_sync_settle", int_type(32), {warp_, parked});
  b_.CreateCondBr(b_.CreateICmpNE(released, i32(0)), wake_, sleep);
  b_.SetInsertPoint(sleep);
  suspend(parking_, kWarpParked);
  b_.CreateBr(settle_);
}

}  // namespace vgpu::softgpu
