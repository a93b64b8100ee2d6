// Floating-point arithmetic. No fast-math flags anywhere: results are those of IEEE, fused only
// where PTX says fma. SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

// [0, 1], NaN becomes 0.
Emitter::Value* Emitter::saturate(Value* v) {
  Value* zero = llvm::ConstantFP::get(v->getType(), 0.0);
  Value* one = llvm::ConstantFP::get(v->getType(), 1.0);
  v = b_.CreateSelect(b_.CreateFCmpOGT(v, zero), v, zero);
  return b_.CreateSelect(b_.CreateFCmpOLT(v, one), v, one);
}

// A helper works on `count` values in memory: LLVM would turn libm calls on vectors into 32 calls
// one by one.
Emitter::Value* Emitter::math_call(const char* helper, Value* v) {
  llvm::Type* scalar = v->getType()->getScalarType();
  const bool vector = is_vector(v);
  auto* slot = stack_slot(v->getType());
  b_.CreateStore(v, slot);
  call_helper(helper, b_.getVoidTy(), {slot, i32(vector ? variant_.lanes : 1)});
  return b_.CreateLoad(vector ? vector_of(scalar) : scalar, slot);
}

void Emitter::float_binary(const Instruction& in, const Type& t) {
  if (t.kind != 'f' || (t.bits == 16 && (in.opcode == "div" || in.opcode == "rem")))
    return unsupported(in, "packed or bfloat arithmetic");
  for (const char* mode : {"rz", "rm", "rp"}) {
    if (in.has(mode)) return unsupported(in, "rounding other than to nearest");
  }
  Value *a = source(in, 1, t), *b = source(in, 2, t);
  unify(&a, &b);
  Value* r = nullptr;
  if (in.opcode == "add") r = b_.CreateFAdd(a, b);
  if (in.opcode == "sub") r = b_.CreateFSub(a, b);
  if (in.opcode == "mul") r = b_.CreateFMul(a, b);
  if (in.opcode == "div") r = b_.CreateFDiv(a, b);
  if (in.opcode == "min" || in.opcode == "max") {
    const bool lower = in.opcode == "min";
    auto op = in.has("NaN") ? (lower ? llvm::Intrinsic::minimum : llvm::Intrinsic::maximum)
                            : (lower ? llvm::Intrinsic::minnum : llvm::Intrinsic::maxnum);
    r = b_.CreateBinaryIntrinsic(op, a, b);
  }
  if (r == nullptr) return unsupported(in);
  if (in.has("sat")) r = saturate(r);
  set(in.operands[0], r);
}

// fma, and mad on floats
void Emitter::fused(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t) || t.kind != 'f')
    return unsupported(in, "packed or bfloat arithmetic");
  for (const char* mode : {"rz", "rm", "rp", "relu"}) {
    if (in.has(mode)) return unsupported(in, mode);
  }
  Value *a = source(in, 1, t), *b = source(in, 2, t), *c = source(in, 3, t);
  unify(&a, &b, &c);
  Value* r = b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
  if (in.has("sat")) r = saturate(r);
  set(in.operands[0], r);
}

void Emitter::float_unary(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t) || t.kind != 'f')
    return unsupported(in, "packed or bfloat arithmetic");
  for (const char* mode : {"rz", "rm", "rp"}) {
    if (in.has(mode)) return unsupported(in, "rounding other than to nearest");
  }
  Value* a = source(in, 1, t);
  Value* one = llvm::ConstantFP::get(a->getType(), 1.0);
  const bool wide = t.bits == 64;
  if (in.opcode == "neg") return set(in.operands[0], b_.CreateFNeg(a));
  if (in.opcode == "abs")
    return set(in.operands[0], b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a));
  if (in.opcode == "sqrt")
    return set(in.operands[0], b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a));
  if (in.opcode == "rcp") return set(in.operands[0], b_.CreateFDiv(one, a));
  if (in.opcode == "rsqrt") {
    return set(in.operands[0],
               b_.CreateFDiv(one, b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a)));
  }
  if (wide) return unsupported(in);
  const bool half = t.bits == 16;
  llvm::Type* single = shaped(llvm::Type::getFloatTy(context_), a);
  if (half) a = b_.CreateFPExt(a, single);
  const char* helper = in.opcode == "ex2"   ? "sg_ex2"
                       : in.opcode == "lg2" ? "sg_lg2"
                       : in.opcode == "sin" ? "sg_sin"
                       : in.opcode == "cos" ? "sg_cos"
                                            : "sg_tanh";
  Value* r = math_call(helper, a);
  if (half) r = b_.CreateFPTrunc(r, shaped(llvm::Type::getHalfTy(context_), r));
  set(in.operands[0], r);
}

// copysign d, a, b: the sign of a, the magnitude of b
void Emitter::copysign(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t) || t.kind != 'f') return unsupported(in);
  Value *a = source(in, 1, t), *b = source(in, 2, t);
  unify(&a, &b);
  set(in.operands[0], b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, b, a));
}

void Emitter::testp(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t) || t.kind != 'f') return unsupported(in);
  Value* a = source(in, 1, t);
  Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
  Value* infinity = llvm::ConstantFP::getInfinity(a->getType());
  llvm::Type* scalar = a->getType()->getScalarType();
  auto lowest = llvm::APFloat::getSmallestNormalized(scalar->getFltSemantics());
  Value* smallest = llvm::ConstantFP::get(a->getType(), lowest);
  Value* zero = llvm::ConstantFP::get(a->getType(), 0.0);
  Value* r = nullptr;
  if (in.has("finite")) r = b_.CreateFCmpOLT(size, infinity);
  if (in.has("infinite")) r = b_.CreateFCmpOEQ(size, infinity);
  if (in.has("number")) r = b_.CreateFCmpORD(a, a);
  if (in.has("notanumber")) r = b_.CreateFCmpUNO(a, a);
  if (in.has("normal"))
    r = b_.CreateAnd(b_.CreateFCmpOGE(size, smallest), b_.CreateFCmpOLT(size, infinity));
  if (in.has("subnormal"))
    r = b_.CreateAnd(b_.CreateFCmpOGT(size, zero), b_.CreateFCmpOLT(size, smallest));
  if (r == nullptr) return unsupported(in);
  set(in.operands[0], r);
}

}  // namespace vgpu::softgpu
