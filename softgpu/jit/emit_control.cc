// Blocks, branches, barriers, suspension and resumption.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

using llvm::BasicBlock;

llvm::Function* Emitter::run(const std::string& name, Diagnostic* error) {
  llvm::Type* ptr = llvm::PointerType::get(context_, 0);
  auto* type = llvm::FunctionType::get(int_type(32), {ptr}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
  warp_ = function_->getArg(0);
  auto* entry = BasicBlock::Create(context_, "entry", function_);
  b_.SetInsertPoint(entry);
  const size_t registers = kernel_.function.registers.size();
  for (size_t r = 0; r < registers; ++r) {
    llvm::Type* scalar = scalar_type(kernel_.function.registers[r].type);
    auto* slot = b_.CreateAlloca(scalar_register(static_cast<int>(r)) ? scalar : vector_of(scalar));
    registers_.push_back(slot);
    b_.CreateStore(llvm::Constant::getNullValue(slot->getAllocatedType()), slot);
  }
  for (size_t b = 0; b < kernel_.blocks.size(); ++b) {
    pending_.push_back(b_.CreateAlloca(int_type(32)));
    parked_.push_back(b_.CreateAlloca(int_type(32)));
    b_.CreateStore(i32(0), pending_[b]);
    b_.CreateStore(i32(0), parked_[b]);
    blocks_.push_back(BasicBlock::Create(context_, "b" + std::to_string(b), function_));
  }
  finish_ = BasicBlock::Create(context_, "finish", function_);
  auto* start = BasicBlock::Create(context_, "start", function_);
  Value* resume = context_field(offsetof(WarpContext, resume), int_type(32));
  entry_switch_ = b_.CreateSwitch(resume, start);
  b_.SetInsertPoint(start);
  b_.CreateStore(context_field(offsetof(WarpContext, mask), int_type(32)), pending_[0]);
  b_.CreateBr(blocks_[0]);
  for (size_t b = 0; b < kernel_.blocks.size() && !failed_; ++b) block_body(static_cast<int>(b));
  b_.SetInsertPoint(finish_);
  b_.CreateRet(i32(kWarpFinished));
  if (!failed_) return function_;
  *error = error_;
  function_->eraseFromParent();
  return nullptr;
}

void Emitter::block_body(int b) {
  b_.SetInsertPoint(blocks_[b]);
  if (!kernel_.blocks[b].reachable) {
    b_.CreateUnreachable();
    return;
  }
  block_ = b;
  mask_ = b_.CreateLoad(int_type(32), pending_[b]);
  b_.CreateStore(i32(0), pending_[b]);
  for (const Instruction& in : kernel_.blocks[b].code) {
    if (failed_) return;
    if (&in == &kernel_.blocks[b].code.back()) break;
    emit_guarded(in);
  }
  terminate(b);
}

std::vector<int> Emitter::frontier_of(int b) const {
  std::vector<int> list;
  for (size_t x = 0; x < kernel_.blocks.size(); ++x) {
    if (kernel_.frontier[b].test(x)) list.push_back(static_cast<int>(x));
  }
  return list;
}

void Emitter::add_pending(int b, Value* mask) {
  b_.CreateStore(b_.CreateOr(b_.CreateLoad(int_type(32), pending_[b]), mask), pending_[b]);
}

// Goes to the first of `candidates` that has pending lanes; to the end when none has.
void Emitter::dispatch(const std::vector<int>& candidates, bool highest_first) {
  std::vector<int> order = candidates;
  std::sort(order.begin(), order.end());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  if (highest_first) std::reverse(order.begin(), order.end());
  for (int c : order) {
    auto* other = BasicBlock::Create(context_, "", function_);
    Value* some = b_.CreateICmpNE(b_.CreateLoad(int_type(32), pending_[c]), i32(0));
    b_.CreateCondBr(some, blocks_[c], other);
    b_.SetInsertPoint(other);
  }
  // Nobody can run: either all lanes have left, or those that remain are parked at barriers.
  std::vector<int> parked;
  for (size_t x = 0; x < kernel_.blocks.size(); ++x) {
    const Block& block = kernel_.blocks[x];
    if (block.reachable && block.ends_in_barrier && block.next >= 0 &&
        !kernel_.frontier[x].empty()) {
      parked.push_back(block.next);
    }
  }
  if (parked.empty()) {
    b_.CreateBr(finish_);
    return;
  }
  Value* any = i32(0);
  for (int p : parked) any = b_.CreateOr(any, b_.CreateLoad(int_type(32), parked_[p]));
  auto* wait = BasicBlock::Create(context_, "parked", function_);
  b_.CreateCondBr(b_.CreateICmpNE(any, i32(0)), wait, finish_);
  b_.SetInsertPoint(wait);
  suspend(parked, kWarpAtBarrier, parked);
}

// Saves the masks and every live register of `blocks`, returns `code`, and dispatches over them
// when resumed.
void Emitter::suspend(const std::vector<int>& blocks, int code, const std::vector<int>& parked) {
  BitSet live(kernel_.function.registers.size());
  for (int b : blocks) live.merge(kernel_.live_in[b]);
  Value* save = context_field(offsetof(WarpContext, save), llvm::PointerType::get(context_, 0));
  std::vector<std::pair<llvm::AllocaInst*, uint32_t>> slots;
  uint32_t offset = 0;
  auto keep = [&](llvm::AllocaInst* slot) {
    const auto bits = slot->getAllocatedType()->getPrimitiveSizeInBits().getFixedValue();
    const uint32_t bytes = static_cast<uint32_t>((bits + 7) / 8);
    const uint32_t align = bytes >= 64 ? 64 : 8;
    offset = (offset + align - 1) / align * align;
    slots.emplace_back(slot, offset);
    offset += bytes;
  };
  for (int p : parked) {  // parked lanes go on when the barrier opens
    b_.CreateStore(b_.CreateOr(b_.CreateLoad(int_type(32), pending_[p]),
                               b_.CreateLoad(int_type(32), parked_[p])),
                   pending_[p]);
  }
  for (int b : blocks) keep(pending_[b]);
  for (size_t r = 0; r < registers_.size(); ++r) {
    if (live.test(r)) keep(registers_[r]);
  }
  save_bytes_max_ = std::max(save_bytes_max_, offset + 64);
  for (auto [slot, at] : slots) {
    b_.CreateAlignedStore(b_.CreateLoad(slot->getAllocatedType(), slot),
                          b_.CreateConstInBoundsGEP1_64(int_type(8), save, at), llvm::Align(8));
  }
  const uint32_t number = ++suspension_count_;
  set_context_field(offsetof(WarpContext, resume), i32(number));
  b_.CreateRet(i32(static_cast<uint64_t>(static_cast<int64_t>(code))));
  auto* again = BasicBlock::Create(context_, "resume" + std::to_string(number), function_);
  entry_switch_->addCase(b_.getInt32(number), again);
  b_.SetInsertPoint(again);
  save = context_field(offsetof(WarpContext, save), llvm::PointerType::get(context_, 0));
  for (auto [slot, at] : slots) {
    Value* from = b_.CreateConstInBoundsGEP1_64(int_type(8), save, at);
    b_.CreateStore(b_.CreateAlignedLoad(slot->getAllocatedType(), from, llvm::Align(8)), slot);
  }
  if (blocks.size() == 1) {
    b_.CreateBr(blocks_[blocks[0]]);
    return;
  }
  for (size_t i = 0; i + 1 < blocks.size(); ++i) {
    auto* other = BasicBlock::Create(context_, "", function_);
    Value* some = b_.CreateICmpNE(b_.CreateLoad(int_type(32), pending_[blocks[i]]), i32(0));
    b_.CreateCondBr(some, blocks_[blocks[i]], other);
    b_.SetInsertPoint(other);
  }
  b_.CreateBr(blocks_[blocks.back()]);
}

// On back edges: leave when the grid is stopped; in loops that wait for others let those run now
// and then.
void Emitter::poll(int b, const std::vector<int>& candidates) {
  auto* leave = BasicBlock::Create(context_, "stopped", function_);
  auto* go_on = BasicBlock::Create(context_, "", function_);
  Value* stop = context_field(offsetof(WarpContext, stop), llvm::PointerType::get(context_, 0));
  auto* word = b_.CreateLoad(int_type(32), stop);
  word->setVolatile(true);
  b_.CreateCondBr(b_.CreateICmpNE(word, i32(0)), leave, go_on);
  b_.SetInsertPoint(leave);
  b_.CreateRet(i32(kWarpStopped));
  b_.SetInsertPoint(go_on);
  if (!kernel_.blocks[b].spins) return;
  constexpr size_t kSpins = offsetof(WarpContext, spins);
  Value* spins = b_.CreateAdd(context_field(kSpins, int_type(32)), i32(1));
  set_context_field(kSpins, spins);
  if (candidates.size() > 1) {  // lanes of this warp may hold what the others wait for
    auto* flip = BasicBlock::Create(context_, "flip", function_);
    auto* stay = BasicBlock::Create(context_, "", function_);
    Value* due = b_.CreateICmpEQ(b_.CreateAnd(spins, i32(3)), i32(3));
    b_.CreateCondBr(due, flip, stay);
    b_.SetInsertPoint(flip);
    dispatch(candidates, true);
    b_.SetInsertPoint(stay);
  }
  auto* yield = BasicBlock::Create(context_, "yield", function_);
  auto* stay = BasicBlock::Create(context_, "", function_);
  Value* due = b_.CreateICmpEQ(b_.CreateAnd(spins, i32(31)), i32(30));
  b_.CreateCondBr(due, yield, stay);
  b_.SetInsertPoint(yield);
  suspend(candidates, kWarpYielded, {});
  b_.SetInsertPoint(stay);
}

void Emitter::terminate(int b) {
  if (failed_) return;
  const Block& block = kernel_.blocks[b];
  const Instruction& last = block.code.back();
  std::vector<int> candidates = frontier_of(b);
  const bool is_exit = last.opcode == "ret" || last.opcode == "exit";
  if (last.opcode == "bra" || is_exit) {
    Value* taken = mask_;
    Value* stays = i32(0);
    if (last.guard >= 0) {
      Value* p = register_value(last.guard);
      Value* bits = mask_bits(last.guard_negated ? b_.CreateNot(p) : p);
      taken = b_.CreateAnd(mask_, bits);
      stays = b_.CreateAnd(mask_, b_.CreateNot(bits));
    }
    if (!is_exit) add_pending(block.branch, taken);
    if (last.guard >= 0 && block.next >= 0) add_pending(block.next, stays);
  } else if (block.ends_in_barrier) {
    return barrier_end(b, last);
  } else {
    emit_guarded(last);
    if (failed_) return;
    if (b_.GetInsertBlock()->getTerminator() != nullptr) return;
    if (block.next >= 0) add_pending(block.next, mask_);
  }
  const bool alone = candidates.empty();
  for (int s : block.successors) candidates.push_back(s);
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  const bool back =
      std::any_of(block.successors.begin(), block.successors.end(), [&](int s) { return s <= b; });
  if (back) poll(b, candidates);
  if (alone && block.successors.size() == 1 && !(is_exit && last.guard >= 0)) {
    b_.CreateBr(blocks_[block.successors[0]]);
    return;
  }
  dispatch(candidates);
}

// bar.sync a{, b}; bar.red.op d, a{, b}, p
void Emitter::barrier_end(int b, const Instruction& in) {
  const bool reduces = in.has("red");
  if (in.guard >= 0) return unsupported(in, "a guarded barrier");
  const size_t first = reduces ? 1 : 0;
  const size_t extra = in.operands.size() - first - (reduces ? 1 : 0);
  Value* id = extra > 0 ? get_lane0(in.operands[first], {'u', 32}) : i32(0);
  Value* threads = extra > 1 ? get_lane0(in.operands[first + 1], {'u', 32}) : i32(0);
  set_context_field(offsetof(WarpContext, barrier_id), id);
  set_context_field(offsetof(WarpContext, barrier_threads), threads);
  uint32_t op = kBarrierSync;
  if (reduces) {
    op = in.has("popc") ? kBarrierPopc : in.has("and") ? kBarrierAnd : kBarrierOr;
    Value* votes = b_.CreateAnd(mask_bits(predicate(in.operands.back())), mask_);
    set_context_field(offsetof(WarpContext, barrier_votes), votes);
  }
  set_context_field(offsetof(WarpContext, barrier_op), i32(op));
  const int next = kernel_.blocks[b].next;
  if (next < 0) {
    b_.CreateBr(finish_);
    return;
  }
  if (kernel_.frontier[b].empty()) {
    add_pending(next, mask_);
    suspend({next}, kWarpAtBarrier, {});
    // suspend ended with a branch to `next`; a reduction's result is stored on the way.
    if (reduces) {
      auto* branch = b_.GetInsertBlock()->getTerminator();
      b_.SetInsertPoint(branch);
      Value* result = context_field(offsetof(WarpContext, barrier_result), int_type(32));
      if (op != kBarrierPopc) result = b_.CreateICmpNE(result, i32(0));
      const bool was = guarded_;
      guarded_ = false;
      set(in.operands[0], result);
      guarded_ = was;
    }
    return;
  }
  if (reduces) return unsupported(in, "bar.red in divergent code");
  b_.CreateStore(b_.CreateOr(b_.CreateLoad(int_type(32), parked_[next]), mask_), parked_[next]);
  dispatch(frontier_of(b));
}

void Emitter::emit_plain(const Instruction& in) {
  auto handler = handlers().find(in.opcode);
  if (handler == handlers().end()) return unsupported(in);
  (this->*handler->second)(in);
}

// @p op: a uniform guard jumps around, a divergent one narrows the mask (and jumps when no lane is
// left).
void Emitter::emit_guarded(const Instruction& in) {
  if (in.guard < 0) return emit_plain(in);
  Value* p = register_value(in.guard);
  if (in.guard_negated) p = b_.CreateNot(p);
  Value* before = mask_;
  const bool before_guarded = guarded_;
  Value* some = p;
  if (is_vector(p)) {
    mask_ = b_.CreateAnd(mask_, mask_bits(p));
    guarded_ = true;
    some = b_.CreateICmpNE(mask_, i32(0));
  }
  auto* then = BasicBlock::Create(context_, "", function_);
  auto* after = BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(some, then, after);
  b_.SetInsertPoint(then);
  emit_plain(in);
  if (b_.GetInsertBlock()->getTerminator() == nullptr) b_.CreateBr(after);
  b_.SetInsertPoint(after);
  mask_ = before;
  guarded_ = before_guarded;
}

void Emitter::trap(const Instruction& in) {
  set_context_field(offsetof(WarpContext, fault_line), i32(static_cast<uint64_t>(in.line)));
  b_.CreateRet(i32(static_cast<uint64_t>(static_cast<int64_t>(kWarpTrapped))));
}

}  // namespace vgpu::softgpu
