// Halves and bfloats: widened to f32, where sums and products of them are exact or safe to round
// twice, and narrowed again. SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

Emitter::Value* Emitter::split(Value* pair, unsigned half) {
  const unsigned bits = pair->getType()->getScalarSizeInBits() / 2;
  Value* v = half == 0 ? pair : b_.CreateLShr(pair, llvm::ConstantInt::get(pair->getType(), bits));
  return b_.CreateTrunc(v, shaped(int_type(bits), v));
}

Emitter::Value* Emitter::join(Value* low, Value* high) {
  const unsigned bits = low->getType()->getScalarSizeInBits();
  low = as(low, int_type(bits));
  high = as(high, int_type(bits));
  unify(&low, &high);
  llvm::Type* type = shaped(int_type(bits * 2), low);
  high = b_.CreateShl(b_.CreateZExt(high, type), llvm::ConstantInt::get(type, bits));
  return b_.CreateOr(b_.CreateZExt(low, type), high);
}

Emitter::Value* Emitter::widen_small(Value* v, const Type& t) {
  llvm::Type* single = shaped(llvm::Type::getFloatTy(context_), v);
  if (t.kind == 'f') return b_.CreateFPExt(as(v, llvm::Type::getHalfTy(context_)), single);
  llvm::Type* word = shaped(int_type(32), v);
  v = b_.CreateZExt(as(v, int_type(16)), word);
  return b_.CreateBitCast(b_.CreateShl(v, llvm::ConstantInt::get(word, 16)), single);
}

Emitter::Value* Emitter::flush_half(Value* v) {
  v = as(v, int_type(16));
  auto number = [&](uint64_t n) { return llvm::ConstantInt::get(v->getType(), n); };
  Value* tiny = b_.CreateICmpEQ(b_.CreateAnd(v, number(0x7c00)), number(0));
  return b_.CreateSelect(tiny, b_.CreateAnd(v, number(0x8000)), v);
}

// f64 goes through an f32 whose last bit remembers that something was cut off, so that the second
// rounding is as good as the only one.
Emitter::Value* Emitter::narrow_small(Value* v, const Type& t) {
  llvm::Type* single = shaped(llvm::Type::getFloatTy(context_), v);
  if (v->getType()->getScalarType()->isDoubleTy()) {
    llvm::Type* word = shaped(int_type(64), v);
    auto number = [&](uint64_t n) { return llvm::ConstantInt::get(word, n); };
    auto real = [&](double x) { return llvm::ConstantFP::get(v->getType(), x); };
    constexpr uint64_t kLow = (1ull << 30) - 1;
    Value* bits = b_.CreateBitCast(v, word);
    Value* rest = b_.CreateICmpNE(b_.CreateAnd(bits, number(kLow)), number(0));
    Value* kept = b_.CreateAnd(bits, number(~kLow));
    kept = b_.CreateOr(kept, b_.CreateShl(b_.CreateZExt(rest, word), number(30)));
    Value* cut = b_.CreateBitCast(kept, v->getType());
    Value* is_nan = b_.CreateFCmpUNO(v, v);
    cut = b_.CreateSelect(is_nan, v, cut);
    if (t.kind == 'g') {  // below the normal range of f32: to whole subnormals of bfloat at once
      Value* magic = real(0x1.8p-81);
      Value* whole = b_.CreateFSub(b_.CreateFAdd(v, magic), magic);
      whole = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, whole, v);
      Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
      cut = b_.CreateSelect(b_.CreateFCmpOLT(size, real(0x1p-126)), whole, cut);
    }
    v = b_.CreateFPTrunc(cut, single);
  }
  if (t.kind == 'f') return b_.CreateFPTrunc(v, shaped(llvm::Type::getHalfTy(context_), v));
  llvm::Type* word = shaped(int_type(32), v);
  auto number = [&](uint64_t n) { return llvm::ConstantInt::get(word, n); };
  Value* bits = b_.CreateBitCast(v, word);
  Value* odd = b_.CreateAnd(b_.CreateLShr(bits, number(16)), number(1));
  Value* up = b_.CreateAdd(b_.CreateAdd(bits, number(0x7fff)), odd);
  Value* r = b_.CreateSelect(b_.CreateFCmpUNO(v, v), number(0x7fff), b_.CreateLShr(up, number(16)));
  return b_.CreateTrunc(r, shaped(int_type(16), r));
}

// p + c rounded to odd: when the sum is not exact and its last bit is even, the neighbour on the
// side of what was lost.
Emitter::Value* Emitter::odd_sum(Value* p, Value* c) {
  Value* s = b_.CreateFAdd(p, c);
  Value* from_c = b_.CreateFSub(s, p);
  Value* lost = b_.CreateFAdd(b_.CreateFSub(p, b_.CreateFSub(s, from_c)), b_.CreateFSub(c, from_c));
  llvm::Type* word = shaped(int_type(64), s);
  auto number = [&](uint64_t n) { return llvm::ConstantInt::get(word, n); };
  Value *bits = b_.CreateBitCast(s, word), *side = b_.CreateBitCast(lost, word);
  Value* inexact = b_.CreateFCmpONE(lost, llvm::ConstantFP::get(s->getType(), 0.0));
  Value* even = b_.CreateICmpEQ(b_.CreateAnd(bits, number(1)), number(0));
  Value* outwards = b_.CreateICmpSGE(b_.CreateXor(bits, side), number(0));
  Value* step = b_.CreateSelect(outwards, number(1), number(~0ull));
  Value* moved = b_.CreateAdd(bits, step);
  return b_.CreateBitCast(b_.CreateSelect(b_.CreateAnd(inexact, even), moved, bits), s->getType());
}

// a * b is exact in f64.
Emitter::Value* Emitter::fused_small(const Instruction& in, const Type& t, Value* a, Value* b,
                                     Value* c) {
  llvm::Type* wide = shaped(llvm::Type::getDoubleTy(context_), a);
  Value* p = b_.CreateFMul(b_.CreateFPExt(a, wide), b_.CreateFPExt(b, wide));
  Value* r = in.operands.size() == 4 ? odd_sum(p, b_.CreateFPExt(c, wide)) : p;
  if (in.has("sat")) r = saturate(r);
  if (in.has("relu")) r = rectify(r);
  return narrow_small(r, t);
}

// add, sub, min and max of pairs of 16-bit integers
void Emitter::pair_integers(const Instruction& in, const Type& t) {
  const bool s = t.kind == 'S', lower = in.opcode == "min";
  const bool compares = lower || in.opcode == "max";
  if (!compares && in.opcode != "add" && in.opcode != "sub") return unsupported(in);
  auto pick = s ? (lower ? llvm::Intrinsic::smin : llvm::Intrinsic::smax)
                : (lower ? llvm::Intrinsic::umin : llvm::Intrinsic::umax);
  Value* results[2];
  for (unsigned h = 0; h < 2; ++h) {
    Value* r = split(source(in, 1, {'b', 32}), h);
    for (size_t i = 2; i < in.operands.size(); ++i) {
      Value* v = split(source(in, i, {'b', 32}), h);
      unify(&r, &v);
      r = compares             ? b_.CreateBinaryIntrinsic(pick, r, v)
          : in.opcode == "add" ? b_.CreateAdd(r, v)
                               : b_.CreateSub(r, v);
    }
    if (in.has("relu")) {
      r = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, r,
                                   llvm::Constant::getNullValue(r->getType()));
    }
    results[h] = r;
  }
  set(in.operands[0], join(results[0], results[1]));
}

}  // namespace vgpu::softgpu
