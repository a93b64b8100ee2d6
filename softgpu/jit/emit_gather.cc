// Accesses whose lanes go anywhere, in blocks that run often: neighbours and equals are looked for
// half a warp at a time (blocks 16 threads wide have two rows in a warp), the rest is left to the
// processor's gathers. SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {
namespace {

constexpr unsigned kHalf = 16;

}  // namespace

// In code that runs seldom a call is smaller, and smaller code compiles faster.
bool Emitter::inlines_memory(uint32_t bytes) const {
  return kernel_.blocks[block_].hot && variant_.lanes == kWarpLanes && (bytes == 4 || bytes == 8);
}

// In strict code only: the processor itself does not mind.
void Emitter::check_alignment(const Address& a, uint32_t bytes) {
  if (!variant_.strict || bytes == 1) return;
  Value* bad;
  Value* where;
  if (a.lane0 != nullptr && a.stride == 0) {
    where = a.lane0;
    bad = b_.CreateICmpNE(b_.CreateAnd(where, i64(bytes - 1)), i64(0));
  } else {
    Value* all = lanes_of(a);
    Value* off = b_.CreateICmpNE(b_.CreateAnd(all, splat(i64(bytes - 1))), splat(i64(0)));
    Value* bits = b_.CreateAnd(mask_bits(off), mask_);
    bad = b_.CreateICmpNE(bits, i32(0));
    Value* first = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, b_.getFalse());
    where = b_.CreateExtractElement(all, b_.CreateAnd(first, i32(variant_.lanes - 1)));
  }
  auto* fault = llvm::BasicBlock::Create(context_, "misaligned", function_);
  auto* fine = llvm::BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(bad, fault, fine);
  b_.SetInsertPoint(fault);
  call_helper("sg_misaligned", b_.getVoidTy(), {warp_, where});
  b_.CreateUnreachable();
  b_.SetInsertPoint(fine);
}

Emitter::Value* Emitter::half_of(Value* vector, unsigned half) {
  std::vector<int> pick;
  for (unsigned i = 0; i < kHalf; ++i) pick.push_back(static_cast<int>(half * kHalf + i));
  return b_.CreateShuffleVector(vector, pick);
}

Emitter::Value* Emitter::join_halves(Value* low, Value* high) {
  std::vector<int> all;
  for (unsigned i = 0; i < 2 * kHalf; ++i) all.push_back(static_cast<int>(i));
  return b_.CreateShuffleVector(low, high, all);
}

// Whether the addresses of all lanes of one half that run are an unknown base + lane * stride.
Emitter::Value* Emitter::fits_stride(const Half& half, uint64_t stride) {
  std::vector<llvm::Constant*> steps;
  for (unsigned i = 0; i < kHalf; ++i)
    steps.push_back(llvm::ConstantInt::get(int_type(64), i * stride));
  Value* wanted = b_.CreateAdd(b_.CreateVectorSplat(kHalf, lane0_of(half, stride)),
                               llvm::ConstantVector::get(steps));
  Value* same = b_.CreateBitCast(b_.CreateICmpEQ(half.addresses, wanted), int_type(kHalf));
  Value* idle = b_.CreateNot(half.mask);
  return b_.CreateICmpEQ(b_.CreateOr(same, idle), constant(int_type(kHalf), 0xffff));
}

// Where the half's first lane is, if the addresses of those that run have this stride.
Emitter::Value* Emitter::lane0_of(const Half& half, uint64_t stride) {
  return b_.CreateSub(half.head, b_.CreateMul(half.first, i64(stride)));
}

// Of a half that does not run at all, the head is the other's, so that it can be read from.
void Emitter::make_halves(Value* addresses, Half* halves) {
  Value* slot = spill(addresses);
  Value* heads[2];
  for (unsigned h = 0; h < 2; ++h) {
    Half& half = halves[h];
    half.addresses = half_of(addresses, h);
    half.mask = b_.CreateTrunc(b_.CreateLShr(mask_, i32(uint64_t{h} * kHalf)), int_type(kHalf));
    half.lanes = b_.CreateBitCast(half.mask, llvm::FixedVectorType::get(int_type(1), kHalf));
    Value* last = constant(int_type(kHalf), uint64_t{1} << (kHalf - 1));
    Value* first =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, b_.CreateOr(half.mask, last), b_.getTrue());
    half.first = b_.CreateZExt(first, int_type(64));
    Value* place = b_.CreateInBoundsGEP(int_type(64), slot,
                                        b_.CreateAdd(half.first, i64(uint64_t{h} * kHalf)));
    heads[h] = b_.CreateAlignedLoad(int_type(64), place, llvm::Align(8));
  }
  for (unsigned h = 0; h < 2; ++h) {
    Value* idle = b_.CreateICmpEQ(halves[h].mask, constant(int_type(kHalf), 0));
    halves[h].head = b_.CreateSelect(idle, heads[1 - h], heads[h]);
  }
}

// Whether the first two lanes are neighbours or equal: where they are not, as in a table that is
// looked up anywhere, nothing more is looked at.
Emitter::Value* Emitter::may_be_regular(Value* addresses, uint32_t bytes, bool or_equal) {
  Value* step = b_.CreateSub(b_.CreateExtractElement(addresses, uint64_t{1}),
                             b_.CreateExtractElement(addresses, uint64_t{0}));
  Value* alone = b_.CreateICmpNE(b_.CreateAnd(mask_, i32(3)), i32(3));
  Value* regular = b_.CreateOr(alone, b_.CreateICmpEQ(step, i64(bytes)));
  return or_equal ? b_.CreateOr(regular, b_.CreateICmpEQ(step, i64(0))) : regular;
}

Emitter::Value* Emitter::gather_anywhere(Value* addresses, llvm::Type* t) {
  auto* pointers = llvm::FixedVectorType::get(llvm::PointerType::get(context_, 0), kWarpLanes);
  return b_.CreateMaskedGather(vector_of(t), b_.CreateIntToPtr(addresses, pointers), llvm::Align(1),
                               mask_vector(mask_), llvm::Constant::getNullValue(vector_of(t)));
}

Emitter::Value* Emitter::gather_inline(Value* addresses, llvm::Type* t, uint32_t bytes,
                                       bool shared) {
  auto* look = llvm::BasicBlock::Create(context_, "look", function_);
  auto* anywhere = llvm::BasicBlock::Create(context_, "gather", function_);
  auto* done = llvm::BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(may_be_regular(addresses, bytes, true), look, anywhere);
  b_.SetInsertPoint(look);
  auto* half_type = llvm::FixedVectorType::get(t, kHalf);
  Value* none = llvm::Constant::getNullValue(half_type);
  Half halves[2];
  make_halves(addresses, halves);
  Value* rows = b_.CreateAnd(fits_stride(halves[0], bytes), fits_stride(halves[1], bytes));
  Value* equals = b_.CreateAnd(fits_stride(halves[0], 0), fits_stride(halves[1], 0));
  auto* in_rows = llvm::BasicBlock::Create(context_, "rows", function_);
  auto* no_rows = llvm::BasicBlock::Create(context_, "", function_);
  auto* in_equals = llvm::BasicBlock::Create(context_, "equals", function_);
  b_.CreateCondBr(rows, in_rows, no_rows);
  b_.SetInsertPoint(in_rows);
  Value* loaded[2];
  for (int i = 0; i < 2; ++i) {
    loaded[i] = b_.CreateMaskedLoad(half_type, pointer(lane0_of(halves[i], bytes)), llvm::Align(1),
                                    halves[i].lanes, none);
  }
  Value* from_rows = join_halves(loaded[0], loaded[1]);
  b_.CreateBr(done);
  b_.SetInsertPoint(no_rows);
  b_.CreateCondBr(equals, in_equals, anywhere);
  b_.SetInsertPoint(in_equals);
  for (int i = 0; i < 2; ++i) {
    Value* one = b_.CreateAlignedLoad(t, pointer(halves[i].head), llvm::Align(1));
    loaded[i] = b_.CreateVectorSplat(kHalf, one);
  }
  Value* from_equals = join_halves(loaded[0], loaded[1]);
  b_.CreateBr(done);
  b_.SetInsertPoint(anywhere);
  Value* from_anywhere = shared && bytes == 4 && permutes() ? gather_in_windows(addresses, t)
                                                            : gather_anywhere(addresses, t);
  anywhere = b_.GetInsertBlock();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  auto* result = b_.CreatePHI(vector_of(t), 3);
  result->addIncoming(from_rows, in_rows);
  result->addIncoming(from_equals, in_equals);
  result->addIncoming(from_anywhere, anywhere);
  return result;
}

void Emitter::scatter_inline(Value* addresses, Value* v, uint32_t bytes) {
  auto* look = llvm::BasicBlock::Create(context_, "look", function_);
  auto* anywhere = llvm::BasicBlock::Create(context_, "scatter", function_);
  b_.CreateCondBr(may_be_regular(addresses, bytes, false), look, anywhere);
  b_.SetInsertPoint(look);
  Half halves[2];
  make_halves(addresses, halves);
  Value* rows = b_.CreateAnd(fits_stride(halves[0], bytes), fits_stride(halves[1], bytes));
  auto* in_rows = llvm::BasicBlock::Create(context_, "rows", function_);
  auto* done = llvm::BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(rows, in_rows, anywhere);
  b_.SetInsertPoint(in_rows);
  for (unsigned i = 0; i < 2; ++i) {
    b_.CreateMaskedStore(half_of(v, i), pointer(lane0_of(halves[i], bytes)), llvm::Align(1),
                         halves[i].lanes);
  }
  b_.CreateBr(done);
  b_.SetInsertPoint(anywhere);
  auto* pointers = llvm::FixedVectorType::get(llvm::PointerType::get(context_, 0), kWarpLanes);
  b_.CreateMaskedScatter(v, b_.CreateIntToPtr(addresses, pointers), llvm::Align(1),
                         mask_vector(mask_));
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

}  // namespace vgpu::softgpu
