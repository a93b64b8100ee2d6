// Chains through the carry flag, which the parser has made a register: the second destination of
// .cc forms and the last operand of addc, subc and madc. SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

// add.cc, addc, sub.cc, subc. A borrow is a carry that subc takes off.
void Emitter::carry_add_sub(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t) || t.is_float()) return unsupported(in);
  add_with_carry(in, t, get(in.operands[1], t), get(in.operands[2], t));
}

// mad.cc, madc of .lo and .hi
void Emitter::carry_multiply(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t) || in.has("wide") || in.opcode == "mul") return unsupported(in);
  Value *a = get(in.operands[1], t), *b = get(in.operands[2], t), *c = get(in.operands[3], t);
  unify(&a, &b);
  Value* product;
  if (in.has("hi")) {
    llvm::Type* wide = shaped(int_type(t.bits * 2u), a);
    auto extend = [&](Value* v) {
      return t.kind == 's' ? b_.CreateSExt(v, wide) : b_.CreateZExt(v, wide);
    };
    Value* full = b_.CreateMul(extend(a), extend(b));
    product =
        b_.CreateTrunc(b_.CreateLShr(full, llvm::ConstantInt::get(wide, t.bits)), a->getType());
  } else {
    product = b_.CreateMul(a, b);
  }
  add_with_carry(in, t, product, c);
}

// a + b or a - b with the flag that came in, if the opcode takes one; sets the flag under .cc.
void Emitter::add_with_carry(const Instruction& in, const Type& t, Value* a, Value* b) {
  const bool subtract = in.opcode == "sub" || in.opcode == "subc";
  const bool takes = in.opcode == "addc" || in.opcode == "subc" || in.opcode == "madc";
  Value* flag = takes ? predicate(in.operands.back()) : b_.getFalse();
  unify(&a, &b, &flag);
  // One bit more than the operands holds the carry (or the borrow).
  llvm::Type* wide = shaped(int_type(t.bits + 1u), a);
  Value *x = b_.CreateZExt(a, wide), *y = b_.CreateZExt(b, wide), *c = b_.CreateZExt(flag, wide);
  Value* sum = subtract ? b_.CreateSub(b_.CreateSub(x, y), c) : b_.CreateAdd(b_.CreateAdd(x, y), c);
  Value* top = b_.CreateLShr(sum, llvm::ConstantInt::get(wide, t.bits));
  set(in.operands[0], b_.CreateTrunc(sum, a->getType()));
  if (in.has("cc")) set_register(in.operands[0].second, b_.CreateTrunc(top, flag->getType()));
}

}  // namespace vgpu::softgpu
