// cvt to and from pairs, tf32 and floats of 8 bits and less. SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"
#include "softgpu/jit/small_format.h"

namespace vgpu::softgpu {
namespace {

struct Small {
  const char* name;
  uint32_t format;
  unsigned bits;  // of one element in its pair
};

const Small* find_small(const std::string& name) {
  static const Small kSmall[] = {{"e5m2x2", kFormatE5m2, 8}, {"e4m3x2", kFormatE4m3, 8},
                                 {"e2m3x2", kFormatE2m3, 8}, {"e3m2x2", kFormatE3m2, 8},
                                 {"e2m1x2", kFormatE2m1, 4}, {"ue8m0x2", kFormatE8m0, 8},
                                 {"f16x2", kFormatHalf, 16}, {"bf16x2", kFormatBfloat, 16}};
  for (const Small& s : kSmall) {
    if (name == s.name) return &s;
  }
  return nullptr;
}

}  // namespace

// Calls helper(out, in…, code, count) on arrays of lanes, or of one value when all are uniform.
Emitter::Value* Emitter::lane_call(const char* helper, llvm::Type* result, const Values& args,
                                   uint32_t code) {
  bool vector = false;
  for (Value* a : args) vector = vector || is_vector(a);
  llvm::Type* type = vector ? vector_of(result) : result;
  auto* out = stack_slot(type);
  Values all{out};
  for (Value* a : args) {
    if (vector) a = splat(a);
    auto* slot = stack_slot(a->getType());
    b_.CreateStore(a, slot);
    all.push_back(slot);
  }
  all.push_back(i32(code));
  all.push_back(i32(vector ? variant_.lanes : 1));
  call_helper(helper, b_.getVoidTy(), all);
  return b_.CreateLoad(type, out);
}

// The pattern (i32) of a float in `format` under the rounding of the instruction.
Emitter::Value* Emitter::encode_small(Value* v, uint32_t format, const Instruction& in) {
  const SmallRound mode = in.has("rna")  ? SmallRound::kAway
                          : in.has("rz") ? SmallRound::kZero
                          : in.has("rm") ? SmallRound::kDown
                          : in.has("rp") ? SmallRound::kUp
                                         : SmallRound::kNearest;
  v = b_.CreateFPCast(v, shaped(llvm::Type::getDoubleTy(context_), v));
  return lane_call("sg_encode", int_type(32), {v},
                   with_rounding(format, mode, in.has("satfinite")));
}

bool Emitter::cvt_small(const Instruction& in) {
  if (in.modifiers.size() < 2 || in.has("rs")) return false;
  const std::string &to = in.modifiers[in.modifiers.size() - 2], &from = in.modifiers.back();
  if (to == "tf32" && from == "f32") {
    Value* v = source(in, 1, {'f', 32});
    if (in.has("relu")) v = rectify(v);
    Value* r = encode_small(v, kFormatTf32, in);
    set(in.operands[0], b_.CreateShl(r, llvm::ConstantInt::get(r->getType(), 13)));
    return true;
  }
  if (find_small(to) == nullptr) return false;
  const bool widens = find_small(from) != nullptr && find_small(from)->bits < 16;
  widens ? cvt_from_pair(in, to, from) : cvt_to_pair(in, to, from);
  return true;
}

// cvt.*.PAIR.f32 d, a, b: a above b. cvt.*.PAIR.f16x2 d, a.
void Emitter::cvt_to_pair(const Instruction& in, const std::string& to, const std::string& from) {
  const Small& small = *find_small(to);
  Type type;
  if (!parse_type(from, &type) || !type.is_real()) return unsupported(in);
  const bool packed = type.is_pair();
  if (!packed && (type.bits != 32 || in.operands.size() != 3)) return unsupported(in);
  Value* elements[2];
  for (unsigned h = 0; h < 2; ++h) {  // 0 = the lower one
    Value* v = packed ? widen_small(split(source(in, 1, {'b', 32}), h), type.element())
                      : source(in, 2 - h, type);
    if (in.has("relu")) v = rectify(v);
    const bool usual = small.bits == 16 && direction(in).empty() && !in.has("satfinite");
    const Type half{to == "f16x2" ? 'f' : 'g', 16};
    elements[h] = usual ? as(narrow_small(v, half), int_type(16))
                        : as(encode_small(v, small.format, in), int_type(small.bits));
  }
  set(in.operands[0], join(elements[0], elements[1]));
}

// cvt.rn.f16x2.PAIR d, a, and bf16x2 of exponents
void Emitter::cvt_from_pair(const Instruction& in, const std::string& to, const std::string& from) {
  const Small& small = *find_small(from);
  if (to != "f16x2" && to != "bf16x2") return unsupported(in);
  Value* pair = source(in, 1, {'b', static_cast<uint8_t>(small.bits * 2)});
  Value* elements[2];
  for (unsigned h = 0; h < 2; ++h) {
    Value* bits = split(pair, h);
    bits = b_.CreateZExt(bits, shaped(int_type(32), bits));
    Value* v = lane_call("sg_decode", llvm::Type::getFloatTy(context_), {bits}, small.format);
    if (in.has("relu")) v = rectify(v);
    elements[h] = narrow_small(v, {to == "f16x2" ? 'f' : 'g', 16});
  }
  set(in.operands[0], join(elements[0], elements[1]));
}

}  // namespace vgpu::softgpu
