// Floating-point arithmetic. No fast-math flags anywhere: results are those of IEEE, fused only
// where PTX says fma. SPDX-License-Identifier: Apache-2.0
#include <map>

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

// Subnormals become zeros of their sign.
Emitter::Value* Emitter::flush(Value* v) {
  llvm::Type* type = v->getType();
  llvm::Type* scalar = type->getScalarType();
  const auto lowest = llvm::APFloat::getSmallestNormalized(scalar->getFltSemantics());
  Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
  Value* tiny = b_.CreateFCmpOLT(size, llvm::ConstantFP::get(type, lowest));
  Value* zero =
      b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, llvm::ConstantFP::get(type, 0.0), v);
  return b_.CreateSelect(tiny, zero, v);
}

Emitter::Value* Emitter::canonical_nan(Value* like) {
  llvm::Type* scalar = like->getType()->getScalarType();
  const unsigned bits = scalar->getPrimitiveSizeInBits();
  const llvm::APInt pattern = llvm::APInt::getSignedMaxValue(bits);
  return llvm::ConstantFP::get(like->getType(), llvm::APFloat(scalar->getFltSemantics(), pattern));
}

// .relu: negative values become 0, NaN becomes the NaN that PTX names.
Emitter::Value* Emitter::rectify(Value* v) {
  Value* zero = llvm::ConstantFP::get(v->getType(), 0.0);
  Value* r = b_.CreateSelect(b_.CreateFCmpOGT(v, zero), v, zero);
  return b_.CreateSelect(b_.CreateFCmpUNO(v, v), canonical_nan(v), r);
}

// Any floating-point form whose operands have the type of the result: pairs go by halves, small
// types are widened, results are rounded once.
void Emitter::real(const Instruction& in) {
  Type t, to;
  if (!in.type_from_end(0, &t) || !t.is_real()) return unsupported(in);
  if (in.has("oob")) return unsupported(in, "out-of-bounds NaN");
  const Type e = t.element();
  const bool mixed = in.type_from_end(1, &to);  // add.f32.f16 d, a, c: a small, c and d single
  if (mixed && !(to == Type{'f', 32} && e.bits == 16 && !t.is_pair())) return unsupported(in);
  const unsigned parts = t.is_pair() ? 2 : 1;
  Values halves[2];
  for (size_t i = 1; i < in.operands.size(); ++i) {
    const bool single = mixed && i + 1 == in.operands.size();
    const Type type = single ? to : t.is_pair() ? Type{'b', t.bits} : e;
    Value* v = source(in, i, e.kind == 'g' && !single ? Type{'b', t.bits} : type);
    for (unsigned h = 0; h < parts; ++h) {
      Value* part = t.is_pair() ? split(v, h) : v;
      if (mixed && !single) part = widen_small(part, e);
      halves[h].push_back(part);
    }
  }
  Value* results[2] = {};
  for (unsigned h = 0; h < parts; ++h) {
    bool vector = false;
    for (Value* v : halves[h]) vector = vector || is_vector(v);
    if (vector) {
      for (Value*& v : halves[h]) v = splat(v);
    }
    results[h] = real_element(in, mixed ? to : e, halves[h]);
    if (results[h] == nullptr) return unsupported(in);
  }
  set(in.operands[0], parts == 1 ? results[0] : join(results[0], results[1]));
}

// One element of type t (16, 32 or 64 bits); nullptr when there is no such form.
Emitter::Value* Emitter::real_element(const Instruction& in, const Type& t, Values args) {
  const bool small = t.bits == 16, ftz = in.has("ftz");
  if (in.opcode == "neg" || in.opcode == "abs") {
    if (ftz && !small) args[0] = flush(as(args[0], scalar_type(t)));
    if (ftz && t == Type{'f', 16}) args[0] = flush_half(args[0]);
    return sign_change(in, as(args[0], int_type(t.bits)));
  }
  for (Value*& v : args) {
    if (ftz && t == Type{'f', 16}) v = flush_half(v);
    v = small ? widen_small(v, t) : as(v, scalar_type(t));
    if (ftz && !small) v = flush(v);
  }
  const std::string mode = direction(in);
  if (small && !mode.empty()) return nullptr;
  Value* r = nullptr;
  if (small && (in.opcode == "fma" || (in.opcode == "mul" && t.kind == 'g'))) {
    Value* c = args.size() == 3 ? args[2] : llvm::ConstantFP::get(args[0]->getType(), -0.0);
    r = fused_small(in, t, args[0], args[1], c);
    return ftz && t.kind == 'f' ? flush_half(r) : r;
  }
  r = plain_arithmetic(in, t, args);
  if (r == nullptr) return nullptr;
  if (in.has("sat")) r = saturate(r);
  if (in.has("relu")) r = rectify(r);
  if (small) r = narrow_small(r, t);
  if (small) return ftz && t.kind == 'f' ? flush_half(r) : r;
  return ftz ? flush(r) : r;
}

Emitter::Value* Emitter::sign_change(const Instruction& in, Value* bits) {
  const llvm::APInt sign = llvm::APInt::getSignMask(bits->getType()->getScalarSizeInBits());
  if (in.opcode == "neg") return b_.CreateXor(bits, llvm::ConstantInt::get(bits->getType(), sign));
  return b_.CreateAnd(bits, llvm::ConstantInt::get(bits->getType(), ~sign));
}

// On f32 or f64 values.
Emitter::Value* Emitter::plain_arithmetic(const Instruction& in, const Type& t,
                                          const Values& args) {
  using I = llvm::Intrinsic::IndependentIntrinsics;
  static const std::map<std::string, std::pair<llvm::Intrinsic::ID, size_t>> kExact = {
      {"add", {I::experimental_constrained_fadd, 2}},
      {"sub", {I::experimental_constrained_fsub, 2}},
      {"mul", {I::experimental_constrained_fmul, 2}},
      {"div", {I::experimental_constrained_fdiv, 2}},
      {"rcp", {I::experimental_constrained_fdiv, 1}},
      {"sqrt", {I::experimental_constrained_sqrt, 1}},
      {"fma", {I::experimental_constrained_fma, 3}},
      {"mad", {I::experimental_constrained_fma, 3}}};
  if (in.opcode == "min" || in.opcode == "max") {
    Value* r = least_or_most(in, args[0], args[1]);
    return args.size() == 3 ? least_or_most(in, r, args[2]) : r;
  }
  auto exact = kExact.find(in.opcode);
  if (exact == kExact.end())
    return t.bits == 64 && in.opcode != "rsqrt" ? nullptr : approximate(in, args[0]);
  if (args.size() != exact->second.second) return nullptr;
  Values all = args;
  if (in.opcode == "rcp") all.insert(all.begin(), llvm::ConstantFP::get(args[0]->getType(), 1.0));
  const std::string mode = direction(in);
  if (!mode.empty()) return rounded(exact->second.first, mode, all[0]->getType(), all);
  switch (exact->second.first) {
    case I::experimental_constrained_fadd:
      return b_.CreateFAdd(all[0], all[1]);
    case I::experimental_constrained_fsub:
      return b_.CreateFSub(all[0], all[1]);
    case I::experimental_constrained_fmul:
      return b_.CreateFMul(all[0], all[1]);
    case I::experimental_constrained_fdiv:
      return b_.CreateFDiv(all[0], all[1]);
    case I::experimental_constrained_sqrt:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, all[0]);
    default:
      return b_.CreateIntrinsic(llvm::Intrinsic::fma, {all[0]->getType()}, all);
  }
}

// min and max: a number wins over NaN unless .NaN says otherwise, and -0 is less than +0.
Emitter::Value* Emitter::least_or_most(const Instruction& in, Value* a, Value* b) {
  llvm::Type* type = a->getType();
  llvm::Type* bits = shaped(int_type(type->getScalarSizeInBits()), a);
  Value* sign = nullptr;
  if (in.has("xorsign")) {
    sign =
        b_.CreateBitCast(b_.CreateXor(b_.CreateBitCast(a, bits), b_.CreateBitCast(b, bits)), type);
  }
  if (in.has("abs")) {
    a = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
    b = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, b);
  }
  const bool lower = in.opcode == "min";
  Value *x = b_.CreateBitCast(a, bits), *y = b_.CreateBitCast(b, bits);
  Value* first = lower ? b_.CreateFCmpOLT(a, b) : b_.CreateFCmpOGT(a, b);
  Value* r = b_.CreateSelect(first, a, b);
  Value* zeros = b_.CreateBitCast(lower ? b_.CreateOr(x, y) : b_.CreateAnd(x, y), type);
  r = b_.CreateSelect(b_.CreateFCmpOEQ(a, b), zeros, r);
  if (in.has("NaN")) {
    r = b_.CreateSelect(b_.CreateFCmpUNO(a, b), canonical_nan(r), r);
  } else {
    r = b_.CreateSelect(b_.CreateFCmpUNO(b, b), a, r);
  }
  if (sign != nullptr) r = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, r, sign);
  return r;
}

// ex2, lg2, sin, cos, tanh, rsqrt: better than PTX asks for.
Emitter::Value* Emitter::approximate(const Instruction& in, Value* v) {
  if (in.opcode == "rsqrt") {
    Value* one = llvm::ConstantFP::get(v->getType(), 1.0);
    return b_.CreateFDiv(one, b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, v));
  }
  static const std::map<std::string, const char*> kHelpers = {{"ex2", "sg_ex2"},
                                                              {"lg2", "sg_lg2"},
                                                              {"sin", "sg_sin"},
                                                              {"cos", "sg_cos"},
                                                              {"tanh", "sg_tanh"}};
  auto helper = kHelpers.find(in.opcode);
  return helper == kHelpers.end() ? nullptr : math_call(helper->second, v);
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
