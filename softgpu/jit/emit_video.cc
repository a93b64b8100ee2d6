// Video instructions: arithmetic on selected bytes and halves with more bits than the result, then
// clamped, merged or accumulated. SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {
namespace {

// The types of d, a and b in order; vset has none for d.
bool video_types(const ptx::Instruction& in, ptx::Type types[3]) {
  size_t n = 0;
  if (in.opcode.rfind("vset", 0) == 0) types[n++] = {'u', 32};
  for (const std::string& m : in.modifiers) {
    ptx::Type t;
    if (n < 3 && ptx::parse_type(m, &t)) types[n++] = t;
  }
  return n == 3;
}

// Of what vmad gives: by its sources and signs, whatever the destination is called.
bool product_is_signed(const ptx::Instruction& in, const ptx::Type types[3]) {
  return types[1].kind == 's' || types[2].kind == 's' ||
         in.operands[1].negated != in.operands[2].negated || in.operands[3].negated;
}

bool named(const ptx::Instruction& in, const char* base) { return in.opcode.rfind(base, 0) == 0; }

}  // namespace

// The selected byte or half (or all) of an operand as i64.
Emitter::Value* Emitter::video_operand(const Operand& o, const Type& t) {
  Operand plain = o;
  plain.negated = false;
  Value* v = get(plain, {'b', 32});
  if (!o.selector.empty()) {
    const unsigned bits = o.selector[0] == 'b' ? 8 : 16;
    const unsigned at = static_cast<unsigned>(o.selector[1] - '0') * bits;
    v = b_.CreateLShr(v, llvm::ConstantInt::get(v->getType(), at & 31));
    v = b_.CreateTrunc(v, shaped(int_type(bits), v));
  }
  llvm::Type* wide = shaped(int_type(64), v);
  return t.kind == 's' ? b_.CreateSExt(v, wide) : b_.CreateZExt(v, wide);
}

// The operation itself on i64 values; nullptr when there is none of that name.
Emitter::Value* Emitter::video_operation(const Instruction& in, Value* a, Value* b) {
  using I = llvm::Intrinsic::IndependentIntrinsics;
  unify(&a, &b);
  auto number = [&](uint64_t v) { return llvm::ConstantInt::get(a->getType(), v); };
  if (named(in, "vadd")) return b_.CreateAdd(a, b);
  if (named(in, "vsub")) return b_.CreateSub(a, b);
  if (named(in, "vabsdiff"))
    return b_.CreateBinaryIntrinsic(I::abs, b_.CreateSub(a, b), b_.getFalse());
  if (named(in, "vmin")) return b_.CreateBinaryIntrinsic(I::smin, a, b);
  if (named(in, "vmax")) return b_.CreateBinaryIntrinsic(I::smax, a, b);
  if (named(in, "vavrg")) {  // halves are rounded away from zero
    Value* sum = b_.CreateAdd(a, b);
    Value* up = b_.CreateZExt(b_.CreateICmpSGE(sum, number(0)), a->getType());
    return b_.CreateAShr(b_.CreateAdd(sum, up), number(1));
  }
  if (named(in, "vshl") || named(in, "vshr")) {
    b = in.has("wrap") ? b_.CreateAnd(b, number(31))
                       : b_.CreateBinaryIntrinsic(I::umin, b, number(32));
    return named(in, "vshl") ? b_.CreateShl(a, b) : b_.CreateAShr(a, b);
  }
  if (!named(in, "vset")) return nullptr;
  for (const std::string& m : in.modifiers) {
    Value* r = compare(m, {'s', 64}, a, b);
    if (r != nullptr) return b_.CreateZExt(r, a->getType());
  }
  return nullptr;
}

// To the range of a type of `bits`.
Emitter::Value* Emitter::video_clamp(Value* v, unsigned bits, bool is_signed) {
  const int64_t top = is_signed ? (1ll << (bits - 1)) - 1 : (1ll << bits) - 1;
  const int64_t low = is_signed ? -top - 1 : 0;
  auto number = [&](int64_t n) {
    return llvm::ConstantInt::get(v->getType(), static_cast<uint64_t>(n), true);
  };
  v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, number(top));
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, number(low));
}

// vop.dtype.atype.btype[.sat][.op2] d[.sel], a[.sel], b[.sel][, c]
void Emitter::video(const Instruction& in) {
  const char last = in.opcode.back();
  if (last == '2' || last == '4') return video_lanes(in, last == '2' ? 2 : 4);
  Type types[3];
  if (!video_types(in, types)) return unsupported(in);
  const bool multiplies = in.opcode == "vmad";
  Value *a = video_operand(in.operands[1], types[1]), *b = video_operand(in.operands[2], types[2]);
  const bool is_signed = multiplies ? product_is_signed(in, types) : types[0].kind == 's';
  Value* r = multiplies ? video_product(in, is_signed, a, b) : video_operation(in, a, b);
  if (r == nullptr) return unsupported(in);
  const std::string& selector = in.operands[0].selector;
  const unsigned bits = selector.empty() ? 32 : selector[0] == 'b' ? 8 : 16;
  if (in.has("sat")) r = video_clamp(r, bits, is_signed);
  llvm::Type* word = shaped(int_type(32), r);
  r = b_.CreateTrunc(r, word);
  if (in.operands.size() > 3 && !multiplies) {
    Value* c = get(in.operands[3], {'b', 32});
    unify(&r, &c);
    auto number = [&](uint64_t n) { return llvm::ConstantInt::get(r->getType(), n); };
    if (!selector.empty()) {  // the result takes its place in c
      const unsigned at = static_cast<unsigned>(selector[1] - '0') * bits;
      const uint64_t field = ((1ull << bits) - 1) << at;
      r = b_.CreateAnd(b_.CreateShl(r, number(at)), number(field));
      r = b_.CreateOr(r, b_.CreateAnd(c, number(~field & 0xffffffff)));
    } else {
      r = video_accumulate(in, r, c, is_signed);
    }
  }
  set(in.operands[0], r);
}

// vmad: {-}a * {-}b + {-}c, exact, with .po one more, shifted down.
Emitter::Value* Emitter::video_product(const Instruction& in, bool is_signed, Value* a, Value* b) {
  Operand addend = in.operands[3];
  addend.negated = false;
  Value* c = get(addend, {'b', 32});
  unify(&a, &b, &c);
  llvm::Type* wide = shaped(int_type(128), a);
  c = is_signed ? b_.CreateSExt(c, wide) : b_.CreateZExt(c, wide);
  Value* r = b_.CreateMul(b_.CreateSExt(a, wide), b_.CreateSExt(b, wide));
  if (in.operands[1].negated != in.operands[2].negated) r = b_.CreateNeg(r);
  r = in.operands[3].negated ? b_.CreateSub(r, c) : b_.CreateAdd(r, c);
  if (in.has("po")) r = b_.CreateAdd(r, llvm::ConstantInt::get(wide, 1));
  const uint64_t down = in.has("shr7") ? 7 : in.has("shr15") ? 15 : 0;
  return b_.CreateAShr(r, llvm::ConstantInt::get(wide, down));
}

Emitter::Value* Emitter::video_accumulate(const Instruction& in, Value* r, Value* c,
                                          bool is_signed) {
  using I = llvm::Intrinsic::IndependentIntrinsics;
  if (in.has("min")) return b_.CreateBinaryIntrinsic(is_signed ? I::smin : I::umin, r, c);
  if (in.has("max")) return b_.CreateBinaryIntrinsic(is_signed ? I::smax : I::umax, r, c);
  return b_.CreateAdd(r, c);
}

// vop2 and vop4: on two halves or four bytes; .add sums the results into c, else c gives the
// elements that the mask leaves out.
void Emitter::video_lanes(const Instruction& in, unsigned count) {
  Type types[3];
  if (!video_types(in, types)) return unsupported(in);
  const unsigned bits = 32 / count;
  Value* c = in.operands.size() > 3 ? get(in.operands[3], {'b', 32}) : i32(0);
  const bool sums = in.has("add");
  const std::string& mask = in.operands[0].selector;
  Value* total = c;
  // The element that a selector names for place i: digits from the highest place down.
  auto element = [&](unsigned operand, unsigned i) {
    const std::string& s = in.operands[operand].selector;
    unsigned pick = i, from = operand;
    if (s.size() == count + 1) {
      pick = static_cast<unsigned>(s[count - i] - '0');
      from = pick < count ? 1 : 2;
      pick %= count;
    }
    Operand o = in.operands[from];
    o.selector = std::string(1, bits == 8 ? 'b' : 'h') + static_cast<char>('0' + pick);
    return video_operand(o, types[operand]);
  };
  for (unsigned i = 0; i < count; ++i) {
    if (!mask.empty() && mask.find(static_cast<char>('0' + i), 1) == std::string::npos) continue;
    Value* r = video_operation(in, element(1, i), element(2, i));
    if (r == nullptr) return unsupported(in);
    if (in.has("sat")) r = video_clamp(r, bits, types[0].kind == 's');
    r = b_.CreateTrunc(r, shaped(int_type(32), r));
    unify(&total, &r);
    auto number = [&](uint64_t n) { return llvm::ConstantInt::get(r->getType(), n); };
    if (sums) {
      total = b_.CreateAdd(total, r);
      continue;
    }
    const uint64_t field = ((1ull << bits) - 1) << (i * bits);
    r = b_.CreateAnd(b_.CreateShl(r, number(i * bits)), number(field));
    total = b_.CreateOr(b_.CreateAnd(total, number(~field & 0xffffffff)), r);
  }
  set(in.operands[0], total);
}

}  // namespace vgpu::softgpu
