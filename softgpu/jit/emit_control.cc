// Blocks, branches, barriers, suspension and resumption.
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/MDBuilder.h>

#include <algorithm>

#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

using llvm::BasicBlock;

namespace {
// The frame of so few is a small part of an SM's stack, whatever they spill.
constexpr size_t kProbedInstructions = 1000;
// More candidates than this are looked through in one place of the function: else code would grow
// with the square of the blocks.
constexpr size_t kNarrow = 5;
}  // namespace

llvm::Function* Emitter::run(const std::string& name, Diagnostic* error) {
  llvm::Type* ptr = llvm::PointerType::get(context_, 0);
  auto* type = llvm::FunctionType::get(int_type(32), {ptr}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
  // Looks at each page of its frame, so that an overflow hits the guard page. That costs.
  size_t instructions = 0;
  for (const Block& block : kernel_.blocks) {
    instructions += block.code.size();
    for (const Instruction& in : block.code)
      cluster_waits_ = cluster_waits_ || (in.opcode == "barrier" && in.has("cluster"));
  }
  if (instructions > kProbedInstructions) function_->addFnAttr("probe-stack", "inline-asm");
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
    blocks_.push_back(BasicBlock::Create(context_, llvm::Twine("b") + llvm::Twine(b), function_));
  }
  finish_ = BasicBlock::Create(context_, "finish", function_);
  for (size_t b = 0; b < kernel_.blocks.size(); ++b) {
    if (kernel_.blocks[b].parks) parking_.push_back(static_cast<int>(b));
  }
  if (!parking_.empty()) {
    settle_ = BasicBlock::Create(context_, "settle", function_);
    wake_ = BasicBlock::Create(context_, "wake", function_);
  }
  auto* start = BasicBlock::Create(context_, "start", function_);
  Value* resume = context_field(offsetof(WarpContext, resume), int_type(32));
  entry_switch_ = b_.CreateSwitch(resume, start);
  b_.SetInsertPoint(start);
  Value* mask = context_field(offsetof(WarpContext, mask), int_type(32));
  if (kernel_.lane_by_lane) {
    first_lane(mask);
  } else {
    b_.CreateStore(mask, pending_[0]);
    b_.CreateBr(blocks_[0]);
  }
  for (size_t b = 0; b < kernel_.blocks.size() && !failed_; ++b) block_body(static_cast<int>(b));
  if (!parking_.empty() && !failed_) finish_parking();
  if (!failed_) spread_wide();
  if (!failed_) keep_in_memory_when_wide();
  b_.SetInsertPoint(finish_);
  if (kernel_.lane_by_lane) next_lane();
  b_.CreateRet(i32(kWarpFinished));
  if (!failed_) return function_;
  *error = error_;
  function_->eraseFromParent();
  return nullptr;
}

// Lanes one after the other: the kernel's own code is run for one of them at a time, which is then
// all that there is. Which one it is stays in the context, where a suspended warp finds it.
void Emitter::first_lane(Value* lanes) {
  Value* lane = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, lanes, b_.getFalse());
  set_context_field(offsetof(WarpContext, lane), lane);
  b_.CreateStore(i32(1), pending_[0]);
  b_.CreateBr(blocks_[0]);
}

// Goes back for the next lane; the insertion point is then where there is none.
void Emitter::next_lane() {
  Value* lane = context_field(offsetof(WarpContext, lane), int_type(32));
  Value* mask = context_field(offsetof(WarpContext, mask), int_type(32));
  Value* done = b_.CreateShl(i32(~1u), lane);  // 0xfffffffe: those above it
  Value* left = b_.CreateAnd(mask, done);
  auto* again = BasicBlock::Create(context_, "next", function_);
  auto* none = BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(b_.CreateICmpNE(left, i32(0)), again, none);
  b_.SetInsertPoint(again);
  first_lane(left);
  b_.SetInsertPoint(none);
}

void Emitter::block_body(int b) {
  b_.SetInsertPoint(blocks_[b]);
  if (!kernel_.blocks[b].reachable) {
    b_.CreateUnreachable();
    return;
  }
  block_ = b;
  mask_ = kernel_.lane_by_lane ? i32(1) : b_.CreateLoad(int_type(32), pending_[b]);
  b_.CreateStore(i32(0), pending_[b]);
  watch_block(b);
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

// Goes to the first block of `order` with pending lanes among `lanes` (nullptr = any); the
// insertion point is then where there is none.
void Emitter::try_blocks(const std::vector<int>& order, Value* lanes) {
  for (int c : order) {
    auto* other = BasicBlock::Create(context_, "", function_);
    Value* pending = b_.CreateLoad(int_type(32), pending_[c]);
    if (lanes != nullptr) pending = b_.CreateAnd(pending, lanes);
    b_.CreateCondBr(b_.CreateICmpNE(pending, i32(0)), blocks_[c], other);
    b_.SetInsertPoint(other);
  }
}

// Goes to the first of `candidates` (ascending) that has pending lanes. When none has, all lanes
// have left, or those that remain are parked.
void Emitter::dispatch(const std::vector<int>& candidates) {
  if (candidates.size() > kNarrow) {
    b_.CreateBr(wide(&dispatch_wide_, "dispatch"));
    return;
  }
  try_blocks(candidates, nullptr);
  b_.CreateBr(parking_.empty() ? finish_ : settle_);
}

BasicBlock* Emitter::wide(BasicBlock** block, const char* name) {
  if (*block == nullptr) *block = BasicBlock::Create(context_, name, function_);
  return *block;
}

// The bodies of the shared places; each may ask for the next.
void Emitter::spread_wide() {
  std::vector<int> all;
  for (size_t b = 0; b < kernel_.blocks.size(); ++b) {
    if (kernel_.blocks[b].reachable) all.push_back(static_cast<int>(b));
  }
  if (yield_wide_ != nullptr) {
    b_.SetInsertPoint(yield_wide_);
    yield(all, true);
  }
  if (flip_wide_ != nullptr) {
    b_.SetInsertPoint(flip_wide_);
    flip(all);
    dispatch(all);
  }
  if (dispatch_wide_ != nullptr) {
    b_.SetInsertPoint(dispatch_wide_);
    try_blocks(all, nullptr);
    b_.CreateBr(parking_.empty() ? finish_ : settle_);
  }
}

// Everything a warp needs to go on at `blocks`, with its place in the save area.
void Emitter::save_slots(const std::vector<int>& blocks,
                         std::vector<std::pair<llvm::AllocaInst*, uint32_t>>* slots) {
  BitSet live(kernel_.function.registers.size());
  for (int b : blocks) live.merge(kernel_.live_in[b]);
  uint32_t offset = 0;
  auto keep = [&](llvm::AllocaInst* slot) {
    const auto bits = slot->getAllocatedType()->getPrimitiveSizeInBits().getFixedValue();
    const uint32_t bytes = static_cast<uint32_t>((bits + 7) / 8);
    const uint32_t align = bytes >= 64 ? 64 : 8;
    offset = (offset + align - 1) / align * align;
    slots->emplace_back(slot, offset);
    offset += bytes;
  };
  for (int b : blocks) {
    keep(pending_[b]);
    if (kernel_.blocks[b].parks) keep(parked_[b]);
  }
  for (size_t r = 0; r < registers_.size(); ++r) {
    if (live.test(r)) keep(registers_[r]);
  }
  save_bytes_max_ = std::max(save_bytes_max_, offset + 64);
}

// Saves the masks and every live register of `blocks` and returns `code`. Goes on behind when
// called again.
void Emitter::suspend(const std::vector<int>& blocks, int code) {
  std::vector<std::pair<llvm::AllocaInst*, uint32_t>> slots;
  save_slots(blocks, &slots);
  Value* save = context_field(offsetof(WarpContext, save), llvm::PointerType::get(context_, 0));
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
}

// On back edges: come back to the runner when it wants that; in loops that wait for others let
// those run now and then.
void Emitter::poll(int b, const std::vector<int>& candidates) {
  llvm::Type* ptr = llvm::PointerType::get(context_, 0);
  auto* word = b_.CreateLoad(int_type(32), context_field(offsetof(WarpContext, attention), ptr));
  word->setVolatile(true);
  Value* due = b_.CreateICmpNE(word, i32(0));
  if (kernel_.blocks[b].spins) due = b_.CreateOr(due, spin(candidates));
  auto* pause = BasicBlock::Create(context_, "yield", function_);
  auto* stay = BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(due, pause, stay, seldom());
  b_.SetInsertPoint(pause);
  if (candidates.size() > kNarrow)
    b_.CreateBr(wide(&yield_wide_, "yield"));
  else
    yield(candidates, kernel_.blocks[b].spins);
  b_.SetInsertPoint(stay);
}

// Counts a turn of a loop that waits; true when the whole warp is to give way.
Emitter::Value* Emitter::spin(const std::vector<int>& candidates) {
  constexpr size_t kSpins = offsetof(WarpContext, spins);
  Value* spins = b_.CreateAdd(context_field(kSpins, int_type(32)), i32(1));
  set_context_field(kSpins, spins);
  if (candidates.size() > 1) {
    auto* turn = BasicBlock::Create(context_, "flip", function_);
    auto* stay = BasicBlock::Create(context_, "", function_);
    Value* due = b_.CreateICmpEQ(b_.CreateAnd(spins, i32(3)), i32(3));
    b_.CreateCondBr(due, turn, stay);
    b_.SetInsertPoint(turn);
    if (candidates.size() > kNarrow) {
      b_.CreateBr(wide(&flip_wide_, "flip"));
    } else {
      flip(candidates);
      b_.CreateBr(stay);
    }
    b_.SetInsertPoint(stay);
  }
  return b_.CreateICmpEQ(b_.CreateAnd(spins, i32(31)), i32(30));
}

llvm::MDNode* Emitter::seldom() {
  return llvm::MDBuilder(context_).createBranchWeights(1, 1 << 20);
}

// Lanes of this warp may hold what the others wait for: now and then one of their blocks comes
// first. In turn the last in the text, where lock holders mostly are, and the block of one lane,
// each lane having its turn, so that none starves between two loops that spin. The insertion point
// is then where no such block is pending.
void Emitter::flip(const std::vector<int>& candidates) {
  constexpr size_t kTurn = offsetof(WarpContext, turn);
  Value* turn = b_.CreateAdd(context_field(kTurn, int_type(32)), i32(1));
  set_context_field(kTurn, turn);
  auto* by_lane = BasicBlock::Create(context_, "", function_);
  auto* last = BasicBlock::Create(context_, "", function_);
  auto* none = BasicBlock::Create(context_, "", function_);
  Value* odd = b_.CreateICmpNE(b_.CreateAnd(turn, i32(1)), i32(0));
  b_.CreateCondBr(odd, by_lane, last);
  b_.SetInsertPoint(by_lane);
  Value* lane = b_.CreateAnd(b_.CreateLShr(turn, i32(1)), i32(31));
  try_blocks(candidates, b_.CreateShl(i32(1), lane));
  b_.CreateBr(none);
  b_.SetInsertPoint(last);
  std::vector<int> order(candidates.rbegin(), candidates.rend());
  try_blocks(order, nullptr);
  b_.CreateBr(none);
  b_.SetInsertPoint(none);
}

// Returns to the runner, so that other warps and blocks go on; then looks who may run.
void Emitter::yield(const std::vector<int>& candidates, bool flips) {
  const bool may_park = std::any_of(candidates.begin(), candidates.end(),
                                    [&](int c) { return kernel_.blocks[c].parks; });
  if (may_park || cluster_waits_)
    set_context_field(offsetof(WarpContext, alive), waiting_lanes(candidates));
  suspend(candidates, kWarpYielded);
  if (may_park) {
    auto* stay = BasicBlock::Create(context_, "", function_);
    Value* released =
        call_helper("sg_sync_settle", int_type(32), {warp_, waiting_lanes(candidates)});
    b_.CreateCondBr(b_.CreateICmpNE(released, i32(0)), wake_, stay);
    b_.SetInsertPoint(stay);
  }
  if (flips && candidates.size() > 1) flip(candidates);
  dispatch(candidates);
}

void Emitter::terminate(int b) {
  if (failed_) return;
  const Block& block = kernel_.blocks[b];
  const Instruction& last = block.code.back();
  if (block.parks) return park(b, last);
  const bool is_exit = last.opcode == "ret" || last.opcode == "exit";
  if (last.opcode == "bra" || is_exit) {
    Value* taken = mask_;
    Value* stays = i32(0);
    if (last.guard >= 0) {
      Value* p = register_value(last.guard);
      Value* bits = mask_bits(last.guard_negated ? b_.CreateNot(p) : p);
      taken = b_.CreateAnd(mask_, bits);
      stays = b_.CreateAnd(mask_, b_.CreateNot(bits));
      watch_branch(taken, stays);
    }
    if (!is_exit) add_pending(block.branch, taken);
    if (last.guard >= 0 && block.next >= 0) add_pending(block.next, stays);
  } else if (last.opcode == "switch") {
    jump_table(b, last);
  } else if (block.ends_in_barrier) {
    return barrier_end(b, last);
  } else {
    emit_guarded(last);
    if (failed_) return;
    if (b_.GetInsertBlock()->getTerminator() != nullptr) return;
    if (block.next >= 0) add_pending(block.next, mask_);
  }
  go_on(b, frontier_of(b));
}

// The way out of block b whose lanes have been added to the pending masks; `waiting`: where other
// lanes may be.
void Emitter::go_on(int b, const std::vector<int>& waiting) {
  const Block& block = kernel_.blocks[b];
  const Instruction& last = block.code.back();
  std::vector<int> candidates = waiting;
  for (int s : block.successors) candidates.push_back(s);
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  const bool back =
      std::any_of(block.successors.begin(), block.successors.end(), [&](int s) { return s <= b; });
  if (back) poll(b, candidates);
  const bool may_leave = last.guard >= 0 && (last.opcode == "ret" || last.opcode == "exit");
  if (waiting.empty() && block.successors.size() == 1 && !may_leave) {
    b_.CreateBr(blocks_[block.successors[0]]);
    return;
  }
  dispatch(candidates);
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

// Whoever sleeps waits for somebody: the next back edge yields.
void Emitter::nanosleep(const Instruction&) {
  constexpr size_t kSpins = offsetof(WarpContext, spins);
  Value* spins = context_field(kSpins, int_type(32));
  set_context_field(kSpins, b_.CreateOr(b_.CreateAnd(spins, i32(~31u)), i32(29)));
}

void Emitter::trap(const Instruction& in) {
  set_context_field(offsetof(WarpContext, fault_line), i32(static_cast<uint64_t>(in.line)));
  b_.CreateRet(i32(static_cast<uint64_t>(static_cast<int64_t>(kWarpTrapped))));
}

}  // namespace vgpu::softgpu
