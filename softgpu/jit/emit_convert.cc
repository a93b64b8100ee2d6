// Moves, address spaces and selections.
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

// Generic addresses are host addresses; shared ones are offsets into the block's window.
void Emitter::cvta(const Instruction& in) {
  const Type t{'u', 64};
  Value* v = source(in, 1, t);
  if (in.in_shared()) {
    Value* window = context_field(offsetof(WarpContext, shared), int_type(64));
    if (is_vector(v)) window = splat(window);
    v = in.has("to") ? b_.CreateSub(v, window) : b_.CreateAdd(v, window);
  }
  set(in.operands[0], v);
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
  if (c.is_float() && in.has("ftz")) v = flush(v);
  Value* zero = llvm::Constant::getNullValue(v->getType());
  Value* p = c.is_float() ? b_.CreateFCmpOGE(v, zero) : b_.CreateICmpSGE(v, zero);
  set(in.operands[0], b_.CreateSelect(p, a, b));
}

// Whether addresses lie in the module's constants, or in the kernel's parameters.
Emitter::Value* Emitter::in_constants(Value* v, bool constants) {
  Value* inside = llvm::Constant::getNullValue(shaped(int_type(1), v));
  auto add = [&](Value* base, uint64_t bytes) {
    Value* size = i64(bytes);
    if (is_vector(v)) base = splat(base), size = splat(size);
    inside = b_.CreateOr(inside, b_.CreateICmpULT(b_.CreateSub(v, base), size));
  };
  if (!constants) {
    add(context_field(offsetof(WarpContext, params), int_type(64)), kernel_.function.param_bytes);
    return inside;
  }
  for (const auto& [name, variable] : kernel_.module->variables) {
    const bool constant = variable.space == ptx::Space::kConst;
    if (constant && resolver_ && resolver_(name) != 0) add(global_address(name), variable.bytes);
  }
  return inside;
}

void Emitter::isspacep(const Instruction& in) {
  Value* v = get(in.operands[1], {'u', 64});
  const bool shared = in.in_shared(), of_cluster = in.has("shared::cluster") && variant_.clustered;
  if (in.has("const") || in.has("param") || in.has("param::entry"))
    return set(in.operands[0], in_constants(v, in.has("const")));
  if (!shared && !in.has("local") && !in.has("global")) return unsupported(in);
  auto inside = [&](Value* base, Value* bytes) {
    if (is_vector(v)) {
      base = splat(base);
      bytes = splat(bytes);
    }
    return b_.CreateICmpULT(b_.CreateSub(v, base), bytes);
  };
  auto field = [&](size_t base_field) { return context_field(base_field, int_type(64)); };
  Value* window = b_.CreateZExt(
      context_field(offsetof(WarpContext, total_shared_bytes), int_type(32)), int_type(64));
  Value* all = variant_.clustered ? i64(uint64_t{kRanks} * kClusterWindow) : window;
  Value* memory = field(offsetof(WarpContext, shared));
  if (of_cluster) return set(in.operands[0], inside(memory, all));
  if (shared) return set(in.operands[0], inside(own_window(), window));
  const uint64_t slices = uint64_t{kernel_.function.local_slice()} * variant_.lanes;
  Value* stacks = b_.CreateMul(
      b_.CreateZExt(context_field(offsetof(WarpContext, stack_bytes), int_type(32)), int_type(64)),
      i64(variant_.lanes));
  Value* local = b_.CreateOr(inside(field(offsetof(WarpContext, local)), i64(slices)),
                             inside(field(offsetof(WarpContext, stack)), stacks));
  if (in.has("local")) return set(in.operands[0], local);
  Value* other = b_.CreateOr(inside(memory, all), local);
  set(in.operands[0], b_.CreateNot(other));
}

}  // namespace vgpu::softgpu
