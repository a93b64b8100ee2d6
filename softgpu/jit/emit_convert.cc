// Moves, conversions, comparisons and selections.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

// mov d, a;  mov {a, b}, c;  mov c, {a, b}
void Emitter::mov(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  const Operand &to = in.operands[0], &from = in.operands[1];
  if (to.kind == Operand::Kind::kVector) {
    const unsigned bits = t.bits / static_cast<unsigned>(to.elements.size());
    Value* v = get(from, {'b', t.bits});
    for (size_t i = 0; i < to.elements.size(); ++i) {
      Value* shift = llvm::ConstantInt::get(v->getType(), i * bits);
      set(to.elements[i], b_.CreateTrunc(b_.CreateLShr(v, shift), shaped(int_type(bits), v)));
    }
    return;
  }
  if (from.kind == Operand::Kind::kVector) {
    const unsigned bits = t.bits / static_cast<unsigned>(from.elements.size());
    Value* whole = constant(int_type(t.bits), 0);
    for (size_t i = 0; i < from.elements.size(); ++i) {
      Value* part = get(from.elements[i], {'b', static_cast<uint8_t>(bits)});
      unify(&whole, &part);
      part = b_.CreateZExt(part, shaped(int_type(t.bits), part));
      whole = b_.CreateOr(whole,
                          b_.CreateShl(part, llvm::ConstantInt::get(whole->getType(), i * bits)));
    }
    return set(to, whole);
  }
  set(to, source(in, 1, t));
}

Emitter::Value* Emitter::round_float(Value* v, const Instruction& in) {
  if (in.has("rni")) return b_.CreateUnaryIntrinsic(llvm::Intrinsic::rint, v);
  if (in.has("rzi")) return b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, v);
  if (in.has("rmi")) return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, v);
  if (in.has("rpi")) return b_.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, v);
  return v;
}

// Out of range saturates, NaN gives zero.
Emitter::Value* Emitter::convert_float_to_int(Value* v, const Type& from, const Type& to,
                                              const Instruction& in) {
  (void)from;
  v = round_float(v, in);
  llvm::Type* type = shaped(int_type(to.bits), v);
  auto op = to.kind == 's' ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
  return b_.CreateIntrinsic(op, {type, v->getType()}, {v});
}

void Emitter::cvt(const Instruction& in) {
  Type to, from;
  if (!in.type_from_end(1, &to) || !in.type_from_end(0, &from)) return unsupported(in, "its types");
  if (to.kind == 'h' || to.kind == 'g' || from.kind == 'h' || from.kind == 'g')
    return unsupported(in, "packed or bfloat types");
  Value* v = source(in, 1, from);
  if (from.is_float() && to.is_float()) {
    for (const char* mode : {"rz", "rm", "rp"}) {
      if (in.has(mode) && to.bits < from.bits)
        return unsupported(in, "rounding other than to nearest");
    }
    v = round_float(v, in);
    v = b_.CreateFPCast(v, shaped(scalar_type(to), v));
    if (in.has("sat")) v = saturate(v);
  } else if (from.is_float()) {
    v = convert_float_to_int(v, from, to, in);
  } else if (to.is_float()) {
    for (const char* mode : {"rz", "rm", "rp"}) {
      if (in.has(mode)) return unsupported(in, "rounding other than to nearest");
    }
    llvm::Type* type = shaped(scalar_type(to), v);
    v = from.kind == 's' ? b_.CreateSIToFP(v, type) : b_.CreateUIToFP(v, type);
  } else {
    llvm::Type* type = shaped(int_type(to.bits), v);
    if (in.has("sat") && to.bits < from.bits) {
      const bool s = to.kind == 's';
      const uint64_t high = s ? (1ull << (to.bits - 1)) - 1 : ~0ull >> (64 - to.bits);
      Value* top = llvm::ConstantInt::get(v->getType(), high);
      Value* low = llvm::ConstantInt::get(v->getType(), s ? ~high : 0, true);
      if (from.kind == 's') {
        v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, top);
        v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, low);
      } else {
        v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, v, top);
      }
    }
    v = from.kind == 's' ? b_.CreateSExtOrTrunc(v, type) : b_.CreateZExtOrTrunc(v, type);
  }
  // A destination wider than the result type is filled by its sign or by zeros.
  const Operand& d = in.operands[0];
  if (d.kind == Operand::Kind::kRegister && to.kind == 's') {
    const unsigned bits = kernel_.function.registers[d.reg].type.bits;
    if (bits > to.bits) v = b_.CreateSExt(v, shaped(int_type(bits), v));
  }
  set(d, v);
}

// Generic addresses are host addresses; shared ones are offsets into the block's window.
void Emitter::cvta(const Instruction& in) {
  const Type t{'u', 64};
  Value* v = source(in, 1, t);
  if (in.has("shared") || in.has("shared::cta")) {
    Value* window = context_field(offsetof(WarpContext, shared), int_type(64));
    if (is_vector(v)) window = splat(window);
    v = in.has("to") ? b_.CreateSub(v, window) : b_.CreateAdd(v, window);
  }
  set(in.operands[0], v);
}

Emitter::Value* Emitter::compare(const std::string& op, const Type& t, Value* a, Value* b) {
  using P = llvm::CmpInst::Predicate;
  struct Row {
    const char* name;
    P real, with_sign, without_sign;
  };
  static const Row kRows[] = {{"eq", P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},
                              {"ne", P::FCMP_ONE, P::ICMP_NE, P::ICMP_NE},
                              {"lt", P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT},
                              {"le", P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
                              {"gt", P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT},
                              {"ge", P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE},
                              {"lo", P::BAD_FCMP_PREDICATE, P::ICMP_ULT, P::ICMP_ULT},
                              {"ls", P::BAD_FCMP_PREDICATE, P::ICMP_ULE, P::ICMP_ULE},
                              {"hi", P::BAD_FCMP_PREDICATE, P::ICMP_UGT, P::ICMP_UGT},
                              {"hs", P::BAD_FCMP_PREDICATE, P::ICMP_UGE, P::ICMP_UGE},
                              {"equ", P::FCMP_UEQ, P::BAD_ICMP_PREDICATE, P::BAD_ICMP_PREDICATE},
                              {"neu", P::FCMP_UNE, P::BAD_ICMP_PREDICATE, P::BAD_ICMP_PREDICATE},
                              {"ltu", P::FCMP_ULT, P::BAD_ICMP_PREDICATE, P::BAD_ICMP_PREDICATE},
                              {"leu", P::FCMP_ULE, P::BAD_ICMP_PREDICATE, P::BAD_ICMP_PREDICATE},
                              {"gtu", P::FCMP_UGT, P::BAD_ICMP_PREDICATE, P::BAD_ICMP_PREDICATE},
                              {"geu", P::FCMP_UGE, P::BAD_ICMP_PREDICATE, P::BAD_ICMP_PREDICATE},
                              {"num", P::FCMP_ORD, P::BAD_ICMP_PREDICATE, P::BAD_ICMP_PREDICATE},
                              {"nan", P::FCMP_UNO, P::BAD_ICMP_PREDICATE, P::BAD_ICMP_PREDICATE}};
  unify(&a, &b);
  for (const Row& row : kRows) {
    if (op != row.name) continue;
    const P p = t.is_float() ? row.real : t.kind == 's' ? row.with_sign : row.without_sign;
    if (p == P::BAD_FCMP_PREDICATE || p == P::BAD_ICMP_PREDICATE) return nullptr;
    return t.is_float() ? b_.CreateFCmp(p, a, b) : b_.CreateICmp(p, a, b);
  }
  return nullptr;
}

// setp.op[.bool].type p[|q], a, b[, c]
void Emitter::setp(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t) || t.kind == 'h' || t.kind == 'g' || in.modifiers.empty())
    return unsupported(in);
  Value* r = compare(in.modifiers[0], t, get(in.operands[1], t), get(in.operands[2], t));
  if (r == nullptr) return unsupported(in);
  Value* inverse = b_.CreateNot(r);
  if (in.operands.size() > 3) {
    Value* c = predicate(in.operands[3]);
    unify(&r, &c);
    inverse = b_.CreateNot(r);
    auto join = [&](Value* v) {
      return in.has("and")  ? b_.CreateAnd(v, c)
             : in.has("or") ? b_.CreateOr(v, c)
                            : b_.CreateXor(v, c);
    };
    r = join(r);
    inverse = join(inverse);
  }
  set(in.operands[0], r);
  if (in.operands[0].second >= 0) set_register(in.operands[0].second, inverse);
}

// set.op.dtype.stype d, a, b: all ones or 1.0
void Emitter::set_compare(const Instruction& in) {
  Type t, d;
  if (!in.type_from_end(0, &t) || !in.type_from_end(1, &d) || t.kind == 'h' || t.kind == 'g' ||
      in.operands.size() > 3)
    return unsupported(in);
  Value* r = compare(in.modifiers[0], t, get(in.operands[1], t), get(in.operands[2], t));
  if (r == nullptr) return unsupported(in);
  llvm::Type* type = shaped(scalar_type(d), r);
  set(in.operands[0], d.is_float() ? b_.CreateUIToFP(r, type) : b_.CreateSExt(r, type));
}

void Emitter::selp(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in);
  Value *a = get(in.operands[1], t), *b = get(in.operands[2], t), *p = predicate(in.operands[3]);
  if (is_vector(a) || is_vector(b) || is_vector(p)) {
    a = splat(a);
    b = splat(b);
  }
  set(in.operands[0], b_.CreateSelect(p, a, b));
}

// slct.type.s32|f32 d, a, b, c: c >= 0 ? a : b
void Emitter::slct(const Instruction& in) {
  Type t, c;
  if (!in.type_from_end(1, &t) || !in.type_from_end(0, &c)) return unsupported(in);
  Value *a = get(in.operands[1], t), *b = get(in.operands[2], t), *v = get(in.operands[3], c);
  unify(&a, &b, &v);
  Value* zero = llvm::Constant::getNullValue(v->getType());
  Value* p = c.is_float() ? b_.CreateFCmpOGE(v, zero) : b_.CreateICmpSGE(v, zero);
  set(in.operands[0], b_.CreateSelect(p, a, b));
}

void Emitter::isspacep(const Instruction& in) {
  Value* v = get(in.operands[1], {'u', 64});
  const bool shared = in.has("shared") || in.has("shared::cta");
  const size_t field = shared ? offsetof(WarpContext, shared) : offsetof(WarpContext, local);
  if (!shared && !in.has("local") && !in.has("global")) return unsupported(in);
  auto inside = [&](size_t base_field, Value* bytes) {
    Value* base = context_field(base_field, int_type(64));
    if (is_vector(v)) {
      base = splat(base);
      bytes = splat(bytes);
    }
    return b_.CreateICmpULT(b_.CreateSub(v, base), bytes);
  };
  Value* window = b_.CreateZExt(
      context_field(offsetof(WarpContext, total_shared_bytes), int_type(32)), int_type(64));
  const uint64_t slices =
      static_cast<uint64_t>((kernel_.function.local_bytes + 15) / 16 * 16) * variant_.lanes;
  if (!in.has("global")) return set(in.operands[0], inside(field, shared ? window : i64(slices)));
  Value* other = b_.CreateOr(inside(offsetof(WarpContext, shared), window),
                             inside(offsetof(WarpContext, local), i64(slices)));
  set(in.operands[0], b_.CreateNot(other));
}

}  // namespace vgpu::softgpu
