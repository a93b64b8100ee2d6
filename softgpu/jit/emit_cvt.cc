// cvt between integers and floats of 16 bits and more.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "softgpu/jit/emitter.h"
#include "softgpu/jit/small_format.h"

namespace vgpu::softgpu {

Emitter::Value* Emitter::round_to_integral(Value* v, const Instruction& in) {
  if (in.has("rni")) return b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, v);
  if (in.has("rzi")) return b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, v);
  if (in.has("rmi")) return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, v);
  if (in.has("rpi")) return b_.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, v);
  return v;
}

void Emitter::cvt(const Instruction& in) {
  if (in.has("pack")) return cvt_pack(in);
  if (cvt_small(in)) return;
  Type to, from;
  if (!in.type_from_end(1, &to) || !in.type_from_end(0, &from) || to.is_pair() || from.is_pair())
    return unsupported(in, "its types");
  Value* v = source(in, 1, from.kind == 'g' ? Type{'b', 16} : from);
  const bool small_source = from.is_real() && from.bits == 16;
  if (small_source) v = widen_small(v, from);
  if (in.has("ftz") && from == Type{'f', 32}) v = flush(v);
  if (to.is_real()) {
    v = from.is_real() ? round_to_integral(v, in) : v;
    v = cvt_to_float(in, from, to, v);
    if (v == nullptr) return unsupported(in);
  } else if (from.is_real()) {
    // Out of range saturates. NaN gives zero, or the highest bit where 64 bits are involved.
    v = round_to_integral(v, in);
    llvm::Type* type = shaped(int_type(to.bits), v);
    auto op = to.kind == 's' ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    Value* const number = b_.CreateIntrinsic(op, {type, v->getType()}, {v});
    const bool wide = from.bits == 64 || to.bits == 64;
    Value* const none = llvm::ConstantInt::get(type, wide ? uint64_t{1} << (to.bits - 1) : 0);
    v = wide ? b_.CreateSelect(b_.CreateFCmpUNO(v, v), none, number) : number;
  } else {
    v = cvt_integers(in, from, to, v);
  }
  // A destination wider than the result type is filled by its sign or by zeros.
  const Operand& d = in.operands[0];
  if (d.kind == Operand::Kind::kRegister && to.kind == 's') {
    const unsigned bits = kernel_.function.registers[d.reg].type.bits;
    if (bits > to.bits) v = b_.CreateSExt(v, shaped(int_type(bits), v));
  }
  set(d, v);
}

// An integer as f64, rounded to odd where 53 bits are too few: safe to round once more.
Emitter::Value* Emitter::integer_to_double(const Type& from, Value* v) {
  llvm::Type* wide = shaped(llvm::Type::getDoubleTy(context_), v);
  const bool s = from.kind == 's';
  if (from.bits < 64) return s ? b_.CreateSIToFP(v, wide) : b_.CreateUIToFP(v, wide);
  Value* d = rounded(s ? llvm::Intrinsic::experimental_constrained_sitofp
                       : llvm::Intrinsic::experimental_constrained_uitofp,
                     "rz", wide, {v});
  Value* back = s ? b_.CreateFPToSI(d, v->getType()) : b_.CreateFPToUI(d, v->getType());
  Value* lost = b_.CreateZExt(b_.CreateICmpNE(back, v), v->getType());
  return b_.CreateBitCast(b_.CreateOr(b_.CreateBitCast(d, v->getType()), lost), wide);
}

// To f16, bf16, f32 or f64; `v` is an integer, or a float of 32 or 64 bits.
Emitter::Value* Emitter::cvt_to_float(const Instruction& in, const Type& from, const Type& to,
                                      Value* v) {
  const std::string mode = direction(in);
  const bool integer = !from.is_real();
  if (to.bits == 16) {
    if (integer) v = integer_to_double(from, v);
    if (in.has("sat")) v = saturate(v);
    if (in.has("relu")) v = rectify(v);
    if (mode.empty() && !in.has("satfinite")) return narrow_small(v, to);
    return encode_small(v, to.kind == 'f' ? kFormatHalf : kFormatBfloat, in);
  }
  llvm::Type* type = shaped(scalar_type(to), v);
  if (integer) {
    const bool s = from.kind == 's';
    if (!mode.empty()) {
      v = rounded(s ? llvm::Intrinsic::experimental_constrained_sitofp
                    : llvm::Intrinsic::experimental_constrained_uitofp,
                  mode, type, {v});
    } else {
      v = s ? b_.CreateSIToFP(v, type) : b_.CreateUIToFP(v, type);
    }
  } else if (!mode.empty() && v->getType()->getScalarSizeInBits() > to.bits) {
    v = rounded(llvm::Intrinsic::experimental_constrained_fptrunc, mode, type, {v});
  } else {
    v = b_.CreateFPCast(v, type);
  }
  if (in.has("sat")) v = saturate(v);
  if (in.has("relu")) v = rectify(v);
  return in.has("ftz") && to.bits == 32 ? flush(v) : v;
}

// .sat clamps to the range of the result, else bits are cut off.
Emitter::Value* Emitter::cvt_integers(const Instruction& in, const Type& from, const Type& to,
                                      Value* v) {
  const bool s = from.kind == 's', to_signed = to.kind == 's';
  if (in.has("sat")) {
    const unsigned bits = std::max(from.bits, to.bits) + 1u;
    llvm::Type* wide = shaped(int_type(bits), v);
    v = s ? b_.CreateSExt(v, wide) : b_.CreateZExt(v, wide);
    auto top = llvm::APInt::getLowBitsSet(bits, to.bits - (to_signed ? 1u : 0u));
    auto low = to_signed ? ~top : llvm::APInt::getZero(bits);
    v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, llvm::ConstantInt::get(wide, top));
    v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, llvm::ConstantInt::get(wide, low));
    return b_.CreateTrunc(v, shaped(int_type(to.bits), v));
  }
  llvm::Type* type = shaped(int_type(to.bits), v);
  return s ? b_.CreateSExtOrTrunc(v, type) : b_.CreateZExtOrTrunc(v, type);
}

// cvt.pack.sat.type.s32[.b32] d, a, b[, c]: a and b clamped, b lowest, a above it; what lay in c is
// moved up behind them.
void Emitter::cvt_pack(const Instruction& in) {
  static const std::map<std::string, Type> kTypes = {
      {"u16", {'u', 16}}, {"s16", {'s', 16}}, {"u8", {'u', 8}}, {"s8", {'s', 8}},
      {"u4", {'u', 4}},   {"s4", {'s', 4}},   {"u2", {'u', 2}}, {"s2", {'s', 2}}};
  if (in.modifiers.size() < 4 || !in.has("sat")) return unsupported(in);
  auto type = kTypes.find(in.modifiers[2]);
  if (type == kTypes.end()) return unsupported(in);
  const unsigned bits = type->second.bits;
  const Type word{'s', 32};
  auto clamp = [&](size_t operand) {
    Value* v = cvt_integers(in, word, type->second, source(in, operand, word));
    return b_.CreateZExt(v, shaped(int_type(32), v));
  };
  Value *a = clamp(1), *b = clamp(2);
  unify(&a, &b);
  Value* r = b_.CreateOr(b_.CreateShl(a, llvm::ConstantInt::get(a->getType(), bits)), b);
  if (in.operands.size() > 3) {
    Value* c = source(in, 3, {'b', 32});
    unify(&r, &c);
    if (bits < 16) c = b_.CreateShl(c, llvm::ConstantInt::get(c->getType(), bits * 2));
    if (bits < 16) r = b_.CreateOr(r, c);
  }
  set(in.operands[0], r);
}

}  // namespace vgpu::softgpu
