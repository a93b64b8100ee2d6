// setp and set: on floats, integers and pairs.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

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
    const P p = t.is_real() ? row.real : t.kind == 's' ? row.with_sign : row.without_sign;
    if (p == P::BAD_FCMP_PREDICATE || p == P::BAD_ICMP_PREDICATE) return nullptr;
    return t.is_real() ? b_.CreateFCmp(p, a, b) : b_.CreateICmp(p, a, b);
  }
  return nullptr;
}

// One comparison for each element of the operands (one, or two of a pair); empty when there is no
// such form. Operands 1 and 2; a third one joins by .and, .or or .xor.
Emitter::Values Emitter::comparisons(const Instruction& in, const Type& t, bool negated) {
  const Type e = t.element();
  Values results;
  for (unsigned h = 0; h < (t.is_pair() ? 2u : 1u); ++h) {
    Value* sides[2];
    for (unsigned k = 0; k < 2; ++k) {
      const bool bits = t.is_pair() || e.kind == 'g';
      Value* v = get(in.operands[k + 1], bits ? Type{'b', t.bits} : t);
      if (t.is_pair()) v = split(v, h);
      if (in.has("ftz") && e == Type{'f', 16}) v = flush_half(v);
      if (e.is_real() && e.bits == 16) v = widen_small(v, e);
      if (e.is_real() && e.bits == 32) v = as(v, scalar_type(e));
      if (in.has("ftz") && e == Type{'f', 32}) v = flush(v);
      sides[k] = v;
    }
    Value* r = compare(in.modifiers[0], e, sides[0], sides[1]);
    if (r == nullptr) return {};
    if (negated) r = b_.CreateNot(r);
    results.push_back(r);
  }
  if (in.operands.size() < 4) return results;
  for (Value*& r : results) {
    Value* c = predicate(in.operands[3]);
    unify(&r, &c);
    r = in.has("and") ? b_.CreateAnd(r, c) : in.has("or") ? b_.CreateOr(r, c) : b_.CreateXor(r, c);
  }
  return results;
}

// setp.op[.bool].type p[|q], a, b[, c]: q is the opposite, or of pairs the upper half's result.
void Emitter::setp(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t) || in.modifiers.empty()) return unsupported(in);
  const Values r = comparisons(in, t, false);
  if (r.empty()) return unsupported(in);
  const int second = in.operands[0].second;
  Value* other = nullptr;
  if (second >= 0) other = t.is_pair() ? r[1] : comparisons(in, t, true)[0];
  set(in.operands[0], r[0]);
  if (second >= 0) set_register(second, other);
}

// set.op[.bool].dtype.stype d, a, b[, c]: all ones or 1.0; of pairs one in each half
void Emitter::set_compare(const Instruction& in) {
  Type t, d;
  if (!in.type_from_end(0, &t) || !in.type_from_end(1, &d)) return unsupported(in);
  const Values r = comparisons(in, t, false);
  if (r.empty()) return unsupported(in);
  const Type e = t.is_pair() && !d.is_pair() ? Type{'u', 16} : d.element();
  Values results;
  for (Value* p : r) {
    if (e.kind == 'g' || e == Type{'f', 16}) {
      Value* one = llvm::ConstantInt::get(shaped(int_type(16), p), e.kind == 'g' ? 0x3f80 : 0x3c00);
      results.push_back(b_.CreateSelect(p, one, llvm::Constant::getNullValue(one->getType())));
    } else {
      llvm::Type* type = shaped(scalar_type(e), p);
      results.push_back(e.is_real() ? b_.CreateUIToFP(p, type) : b_.CreateSExt(p, type));
    }
  }
  set(in.operands[0], results.size() == 2 ? join(results[0], results[1]) : results[0]);
}

}  // namespace vgpu::softgpu
