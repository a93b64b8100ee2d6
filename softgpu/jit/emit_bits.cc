// Bit masks, byte permutations, look-up logic and dot products of bytes.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

// bmsk.clamp|wrap.b32 d, pos, len: len ones from pos on
// szext.clamp|wrap.type d, a, n: the low n bits of a, extended by the type
void Emitter::bit_mask(const Instruction& in) {
  const bool extends = in.opcode == "szext";
  Type t;
  if (!in.type_from_end(0, &t) || t.bits != 32) return unsupported(in);
  Value *a = source(in, 1, t), *n = source(in, 2, {'u', 32});
  unify(&a, &n);
  llvm::Type* word = a->getType();
  llvm::Type* wide = shaped(int_type(64), a);
  auto number = [&](uint64_t v) { return llvm::ConstantInt::get(wide, v); };
  auto bound = [&](Value* v) {
    if (in.has("wrap")) v = b_.CreateAnd(v, llvm::ConstantInt::get(word, 31));
    Value* limit = llvm::ConstantInt::get(word, 32);
    v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, v, limit);
    return b_.CreateZExt(v, wide);
  };
  Value* bits = bound(n);
  Value* ones = b_.CreateSub(b_.CreateShl(number(1), bits), number(1));
  if (!extends) {
    return set(in.operands[0], b_.CreateTrunc(b_.CreateShl(ones, bound(a)), word));
  }
  Value* up = b_.CreateSub(number(64), bits);
  Value* capped = b_.CreateAnd(up, number(63));
  Value* value = b_.CreateShl(b_.CreateZExt(a, wide), capped);
  value = t.kind == 's' ? b_.CreateAShr(value, capped) : b_.CreateLShr(value, capped);
  value = b_.CreateSelect(b_.CreateICmpEQ(bits, number(0)), number(0), value);
  set(in.operands[0], b_.CreateTrunc(value, word));
}

// The selector that a named mode of prmt stands for, from the low two bits of c.
Emitter::Value* Emitter::permute_selector(const std::string& mode, Value* c) {
  auto number = [&](uint64_t v) { return llvm::ConstantInt::get(c->getType(), v); };
  Value* n = b_.CreateAnd(c, number(3));
  Value* selector = number(0);
  for (uint64_t i = 0; i < 4; ++i) {
    Value* pick = nullptr;
    if (mode == "f4e") pick = b_.CreateAdd(n, number(i));
    if (mode == "b4e") pick = b_.CreateAnd(b_.CreateSub(n, number(i)), number(7));
    if (mode == "rc8") pick = n;
    if (mode == "ecl") pick = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, n, number(i));
    if (mode == "ecr") pick = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, n, number(i));
    if (mode == "rc16") {
      Value* half = b_.CreateShl(b_.CreateAnd(n, number(1)), number(1));
      pick = b_.CreateOr(half, number(i & 1));
    }
    if (pick == nullptr) return nullptr;
    selector = b_.CreateOr(selector, b_.CreateShl(pick, number(i * 4)));
  }
  return selector;
}

void Emitter::permute_bytes(const Instruction& in) {
  const Type t{'b', 32};
  Value *a = source(in, 1, t), *b = source(in, 2, t), *s = source(in, 3, t);
  unify(&a, &b, &s);
  if (in.modifiers.size() > 1) s = permute_selector(in.modifiers[1], s);
  if (s == nullptr) return unsupported(in);
  llvm::Type* wide = shaped(int_type(64), a);
  Value* both = b_.CreateOr(b_.CreateZExt(a, wide),
                            b_.CreateShl(b_.CreateZExt(b, wide), llvm::ConstantInt::get(wide, 32)));
  Value* selector = b_.CreateZExt(s, wide);
  auto number = [&](uint64_t v) { return llvm::ConstantInt::get(wide, v); };
  Value* result = number(0);
  for (uint64_t i = 0; i < 4; ++i) {
    Value* pick = b_.CreateAnd(b_.CreateLShr(selector, number(i * 4)), number(15));
    Value* by = b_.CreateShl(b_.CreateAnd(pick, number(7)), number(3));
    Value* byte = b_.CreateAnd(b_.CreateLShr(both, by), number(255));
    Value* sign = b_.CreateMul(b_.CreateLShr(byte, number(7)), number(255));
    byte = b_.CreateSelect(b_.CreateICmpUGT(pick, number(7)), sign, byte);
    result = b_.CreateOr(result, b_.CreateShl(byte, number(i * 8)));
  }
  set(in.operands[0], b_.CreateTrunc(result, shaped(int_type(32), a)));
}

// lop3.b32 d, a, b, c, table;  lop3.and|or.b32 d|p, a, b, c, table, q: p = (d != 0) op q
void Emitter::lop3(const Instruction& in) {
  const Type t{'b', 32};
  const bool with_predicate = in.operands.size() == 6;
  if (in.operands.size() != 5 && !with_predicate) return unsupported(in);
  Value *a = get(in.operands[1], t), *b = get(in.operands[2], t), *c = get(in.operands[3], t);
  unify(&a, &b, &c);
  const auto table = static_cast<uint64_t>(in.operands[4].integer);
  Value* result = llvm::Constant::getNullValue(a->getType());
  for (unsigned i = 0; i < 8; ++i) {
    if ((table >> i & 1) == 0) continue;
    Value* x = (i & 4) != 0 ? a : b_.CreateNot(a);
    Value* y = (i & 2) != 0 ? b : b_.CreateNot(b);
    Value* z = (i & 1) != 0 ? c : b_.CreateNot(c);
    result = b_.CreateOr(result, b_.CreateAnd(x, b_.CreateAnd(y, z)));
  }
  if (with_predicate) {
    Value* p = b_.CreateICmpNE(result, llvm::Constant::getNullValue(result->getType()));
    Value* q = predicate(in.operands[5]);
    unify(&p, &q);
    p = in.has("and") ? b_.CreateAnd(p, q) : b_.CreateOr(p, q);
    if (in.operands[0].second >= 0) set_register(in.operands[0].second, p);
  }
  set(in.operands[0], result);
}

// fns.b32 d, mask, base, offset: the place of the offset-th set bit from base on
void Emitter::find_nth_set(const Instruction& in) {
  const Type t{'b', 32};
  set(in.operands[0],
      lane_call("sg_find_nth", int_type(32),
                {get(in.operands[1], t), get(in.operands[2], t), get(in.operands[3], t)}, 0));
}

// dp4a.atype.btype d, a, b, c: four products of bytes, added to c
// dp2a.lo|hi.atype.btype d, a, b, c: two products of a's halves and two bytes of b
void Emitter::dot_product(const Instruction& in) {
  Type ta, tb;
  if (!in.type_from_end(1, &ta) || !in.type_from_end(0, &tb)) return unsupported(in);
  const Type t{'b', 32};
  Value *a = get(in.operands[1], t), *b = get(in.operands[2], t), *c = get(in.operands[3], t);
  unify(&a, &b, &c);
  auto part = [&](Value* v, unsigned i, unsigned bits, bool is_signed) {
    v = b_.CreateShl(v, llvm::ConstantInt::get(v->getType(), 32 - bits * (i + 1)));
    Value* n = llvm::ConstantInt::get(v->getType(), 32 - bits);
    return is_signed ? b_.CreateAShr(v, n) : b_.CreateLShr(v, n);
  };
  const bool four = in.opcode == "dp4a";
  const unsigned first = in.has("hi") ? 2 : 0;
  for (unsigned i = 0; i < (four ? 4u : 2u); ++i) {
    Value* x = part(a, i, four ? 8 : 16, ta.kind == 's');
    c = b_.CreateAdd(c, b_.CreateMul(x, part(b, first + i, 8, tb.kind == 's')));
  }
  set(in.operands[0], c);
}

}  // namespace vgpu::softgpu
