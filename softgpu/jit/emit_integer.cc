// Integer arithmetic and bits; dispatches the float forms of shared opcodes.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

// add and sub with .sat; those with a carry flag are in emit_carry.cc
void Emitter::add_sub(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  if (in.has("cc") || in.opcode == "addc" || in.opcode == "subc") return carry_add_sub(in);
  if (t.is_real()) return real(in);
  if (t.is_pair()) return pair_integers(in, t);
  if (in.has("sat") && !(t == Type{'s', 32})) return unsupported(in, "only .s32 saturates");
  Value *a = source(in, 1, t), *b = source(in, 2, t);
  unify(&a, &b);
  const bool subtract = in.opcode == "sub";
  if (in.has("sat")) {
    auto op = subtract ? llvm::Intrinsic::ssub_sat : llvm::Intrinsic::sadd_sat;
    return set(in.operands[0], b_.CreateBinaryIntrinsic(op, a, b));
  }
  set(in.operands[0], subtract ? b_.CreateSub(a, b) : b_.CreateAdd(a, b));
}

Emitter::Value* Emitter::product(const Instruction& in, const Type& t) {
  const bool wide = in.has("wide");
  const bool high = in.has("hi");
  Value *a = source(in, 1, t), *b = source(in, 2, t);
  unify(&a, &b);
  if (!wide && !high && !(in.opcode == "mul24" || in.opcode == "mad24")) return b_.CreateMul(a, b);
  if (in.opcode == "mul24" || in.opcode == "mad24") {
    llvm::Type* product_type = shaped(int_type(64), a);
    auto cut = [&](Value* v) {
      Value* up = b_.CreateShl(v, llvm::ConstantInt::get(v->getType(), 8));
      Value* eight = llvm::ConstantInt::get(v->getType(), 8);
      return t.kind == 's' ? b_.CreateSExt(b_.CreateAShr(up, eight), product_type)
                           : b_.CreateZExt(b_.CreateLShr(up, eight), product_type);
    };
    Value* p = b_.CreateMul(cut(a), cut(b));
    if (high) p = b_.CreateLShr(p, llvm::ConstantInt::get(product_type, 16));
    return b_.CreateTrunc(p, a->getType());
  }
  llvm::Type* type = shaped(int_type(t.bits * 2u), a);
  auto extend = [&](Value* v) {
    return t.kind == 's' ? b_.CreateSExt(v, type) : b_.CreateZExt(v, type);
  };
  Value* full = b_.CreateMul(extend(a), extend(b));
  if (wide) return full;
  Value* shift = llvm::ConstantInt::get(type, t.bits);
  return b_.CreateTrunc(b_.CreateLShr(full, shift), shaped(int_type(t.bits), a));
}

void Emitter::multiply(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  const bool adds = in.opcode == "mad" || in.opcode == "mad24";
  if (t.is_real()) return real(in);
  if (in.has("cc") || in.opcode == "madc") return carry_multiply(in);
  if (in.has("sat") && !(in.has("hi") && t == Type{'s', 32}))
    return unsupported(in, "only .hi.s32 saturates");
  Value* p = product(in, t);
  if (adds) {
    const Type sum_type = in.has("wide") ? Type{t.kind, static_cast<uint8_t>(t.bits * 2)} : t;
    Value* c = source(in, 3, sum_type);
    unify(&p, &c);
    p = in.has("sat") ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, p, c)
                      : b_.CreateAdd(p, c);
  }
  set(in.operands[0], p);
}

// div and rem. The processor traps on zero and on overflow: lanes that would get another divisor;
// so do idle lanes.
void Emitter::divide(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  if (t.is_real()) return real(in);
  if (t.is_pair()) return pair_integers(in, t);
  Value *a = source(in, 1, t), *b = source(in, 2, t);
  unify(&a, &b);
  auto number = [&](uint64_t v) { return llvm::ConstantInt::get(a->getType(), v, true); };
  Value* bad = b_.CreateICmpEQ(b, number(0));
  if (t.kind == 's') {
    const uint64_t lowest = ~0ull << (t.bits - 1);
    Value* overflow =
        b_.CreateAnd(b_.CreateICmpEQ(a, number(lowest)), b_.CreateICmpEQ(b, number(~0ull)));
    bad = b_.CreateOr(bad, overflow);
  }
  Value* safe = b_.CreateSelect(bad, number(1), b);
  Value* by_zero = b_.CreateICmpEQ(b, number(0));
  Value* result;
  if (in.opcode == "div") {
    result = t.kind == 's' ? b_.CreateSDiv(a, safe) : b_.CreateUDiv(a, safe);
    result = b_.CreateSelect(by_zero, number(~0ull), result);
  } else {
    result = t.kind == 's' ? b_.CreateSRem(a, safe) : b_.CreateURem(a, safe);
    result = b_.CreateSelect(by_zero, a, result);
  }
  set(in.operands[0], result);
}

void Emitter::min_max(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  if (t.is_real()) return real(in);
  if (t.is_pair()) return pair_integers(in, t);
  if (in.operands.size() != 3) return unsupported(in);
  Value *a = source(in, 1, t), *b = source(in, 2, t);
  unify(&a, &b);
  const bool lower = in.opcode == "min";
  auto op = t.kind == 's' ? (lower ? llvm::Intrinsic::smin : llvm::Intrinsic::smax)
                          : (lower ? llvm::Intrinsic::umin : llvm::Intrinsic::umax);
  set(in.operands[0], b_.CreateBinaryIntrinsic(op, a, b));
}

void Emitter::bitwise(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  Value* a = source(in, 1, t);
  if (in.opcode == "not") return set(in.operands[0], b_.CreateNot(a));
  if (in.opcode == "cnot") {
    Value* zero = b_.CreateICmpEQ(a, llvm::Constant::getNullValue(a->getType()));
    return set(in.operands[0], b_.CreateZExt(zero, a->getType()));
  }
  Value* b = source(in, 2, t);
  unify(&a, &b);
  set(in.operands[0], in.opcode == "and"  ? b_.CreateAnd(a, b)
                      : in.opcode == "or" ? b_.CreateOr(a, b)
                                          : b_.CreateXor(a, b));
}

// Shifts by the width or more give zero (or the sign); in LLVM they are undefined.
void Emitter::shift(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  Value* a = source(in, 1, t);
  Value* n = source(in, 2, {'u', 32});
  unify(&a, &n);
  llvm::Type* type = a->getType();
  Value* limit = llvm::ConstantInt::get(n->getType(), t.bits - 1u);
  Value* over = b_.CreateICmpUGT(n, limit);
  Value* capped = as(b_.CreateSelect(over, limit, n), type->getScalarType());
  if (in.opcode == "shr" && t.kind == 's') return set(in.operands[0], b_.CreateAShr(a, capped));
  Value* r = in.opcode == "shl" ? b_.CreateShl(a, capped) : b_.CreateLShr(a, capped);
  set(in.operands[0], b_.CreateSelect(over, llvm::Constant::getNullValue(type), r));
}

void Emitter::funnel_shift(const Instruction& in) {
  const Type t{'b', 32};
  Value *low = source(in, 1, t), *high = source(in, 2, t), *n = source(in, 3, t);
  unify(&low, &high, &n);
  if (in.has("clamp")) {
    Value* limit = llvm::ConstantInt::get(n->getType(), 32);
    n = b_.CreateSelect(b_.CreateICmpUGT(n, limit), limit, n);
  } else {
    n = b_.CreateAnd(n, llvm::ConstantInt::get(n->getType(), 31));
  }
  llvm::Type* wide = shaped(int_type(64), low);
  Value* both =
      b_.CreateOr(b_.CreateShl(b_.CreateZExt(high, wide), llvm::ConstantInt::get(wide, 32)),
                  b_.CreateZExt(low, wide));
  Value* by = b_.CreateZExt(n, wide);
  Value* r = in.has("l") ? b_.CreateLShr(b_.CreateShl(both, by), llvm::ConstantInt::get(wide, 32))
                         : b_.CreateLShr(both, by);
  set(in.operands[0], b_.CreateTrunc(r, low->getType()));
}

void Emitter::bit_count(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  Value* a = source(in, 1, t);
  llvm::Type* type = a->getType();
  if (in.opcode == "brev") {
    return set(in.operands[0], b_.CreateUnaryIntrinsic(llvm::Intrinsic::bitreverse, a));
  }
  Value* r;
  if (in.opcode == "popc") {
    r = b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, a);
  } else {
    if (in.opcode == "bfind" && t.kind == 's') {
      Value* sign = b_.CreateAShr(a, llvm::ConstantInt::get(type, t.bits - 1u));
      a = b_.CreateXor(a, sign);
    }
    r = b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, a, b_.getFalse());
    if (in.opcode == "bfind") {
      Value* top = b_.CreateSub(llvm::ConstantInt::get(type, t.bits - 1u), r);
      Value* none = b_.CreateICmpEQ(a, llvm::Constant::getNullValue(type));
      Value* found = in.has("shiftamt") ? r : top;
      r = b_.CreateSelect(none, llvm::Constant::getAllOnesValue(type), found);
    }
  }
  set(in.operands[0], b_.CreateZExtOrTrunc(r, shaped(int_type(32), r)));
}

// bfe d, a, pos, len;  bfi d, a, b, pos, len
void Emitter::bit_field(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  const bool insert = in.opcode == "bfi";
  const size_t at = insert ? 3 : 2;
  Value *pos = source(in, at, {'u', 32}), *len = source(in, at + 1, {'u', 32});
  Value* a = source(in, 1, t);
  Value* b = insert ? source(in, 2, t) : a;
  unify(&pos, &len, &a);
  if (is_vector(a) != is_vector(b)) {
    for (Value** v : {&pos, &len, &a, &b}) *v = splat(*v);
  }
  // 128 bits are wide enough for every position and length of 0…255 once both are capped at the
  // width.
  llvm::Type* wide = shaped(int_type(128), a);
  auto number = [&](uint64_t v) { return llvm::ConstantInt::get(wide, v); };
  auto cap = [&](Value* v) {
    v = b_.CreateZExt(b_.CreateAnd(v, llvm::ConstantInt::get(v->getType(), 0xff)), wide);
    return b_.CreateSelect(b_.CreateICmpUGT(v, number(t.bits)), number(t.bits), v);
  };
  Value *p = cap(pos), *l = cap(len);
  Value* ones = b_.CreateSub(b_.CreateShl(number(1), l), number(1));
  Value* mask = b_.CreateShl(ones, p);
  Value* result;
  if (insert) {
    Value* field = b_.CreateAnd(b_.CreateShl(b_.CreateZExt(a, wide), p), mask);
    result = b_.CreateOr(b_.CreateAnd(b_.CreateZExt(b, wide), b_.CreateNot(mask)), field);
  } else if (t.kind ==
             's') {  // the sign is bit pos+len-1, or the top bit when the field reaches past it
    Value* value = b_.CreateSExt(a, wide);
    Value* up = b_.CreateSub(number(128), l);
    Value* field = b_.CreateShl(b_.CreateAShr(value, p), b_.CreateAnd(up, number(127)));
    Value* none = b_.CreateICmpEQ(l, number(0));
    result = b_.CreateSelect(none, number(0), b_.CreateAShr(field, b_.CreateAnd(up, number(127))));
  } else {
    result = b_.CreateAnd(b_.CreateLShr(b_.CreateZExt(a, wide), p), ones);
  }
  set(in.operands[0], b_.CreateTrunc(result, shaped(int_type(t.bits), a)));
}

void Emitter::absolute(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  if (t.is_real()) return real(in);
  set(in.operands[0],
      b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, source(in, 1, t), b_.getFalse()));
}

void Emitter::negate(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  if (t.is_real()) return real(in);
  set(in.operands[0], b_.CreateNeg(source(in, 1, t)));
}

// sad d, a, b, c = c + |a - b|
void Emitter::sad(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  Value *a = source(in, 1, t), *b = source(in, 2, t), *c = source(in, 3, t);
  unify(&a, &b, &c);
  Value* less = t.kind == 's' ? b_.CreateICmpSLT(a, b) : b_.CreateICmpULT(a, b);
  Value* distance = b_.CreateSelect(less, b_.CreateSub(b, a), b_.CreateSub(a, b));
  set(in.operands[0], b_.CreateAdd(c, distance));
}

}  // namespace vgpu::softgpu
