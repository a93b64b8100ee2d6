// atom and red: a helper walks the active lanes, since their order must look like one after the
// other. SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/atomic_op.h"
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

// Halves in one atomic word: their number, and whether they are bfloats; 0 halves for other types.
uint32_t Emitter::small_atomic(const Type& t) {
  if (!t.is_real() || (t.bits == 32 && !t.is_pair()) || t.bits == 64) return 0;
  return (t.is_pair() ? 2u : 1u) | (t.kind == 'g' ? 4u : 0u);
}

// atom and red; .v2, .v4 and .v8 are as many atomics on neighbours.
void Emitter::atomic(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  const bool red = in.opcode == "red";
  if (in.has("async")) {
    atomic(at_once(in));
    return count_bytes(in, 2);
  }
  AtomicOp op = AtomicOp::kAdd;
  bool found = false;
  for (const std::string& m : in.modifiers) found = found || parse_atomic_op(m, &op);
  const bool known = t.bits == 128 ? op == AtomicOp::kCas || op == AtomicOp::kExch
                     : small_atomic(t) != 0
                         ? op == AtomicOp::kAdd || op == AtomicOp::kMin || op == AtomicOp::kMax
                         : atomic_type(t.kind, t.bits) != AtomicType::kNone;
  if (!found || !known || t.kind == 'F') return unsupported(in);
  const size_t at = red ? 0 : 1;
  const Address a = address(in.operands[at], in);
  watch_access(in, a, t.bytes());
  const Operand& value = in.operands[at + 1];
  if (value.kind != Operand::Kind::kVector) {
    Value* second = op == AtomicOp::kCas ? get(in.operands[at + 2], {'b', t.bits}) : nullptr;
    Value* old = atomic_element(in, t, op, a, atomic_operand(value, t), second);
    return red ? void() : set(in.operands[0], old);
  }
  Values old;
  for (size_t i = 0; i < value.elements.size(); ++i) {
    const Address place = offset(a, static_cast<int64_t>(i) * t.bytes());
    old.push_back(atomic_element(in, t, op, place, atomic_operand(value.elements[i], t), nullptr));
  }
  for (size_t i = 0; !red && i < old.size(); ++i) set(in.operands[0].elements[i], old[i]);
}

Emitter::Value* Emitter::atomic_operand(const Operand& o, const Type& t) {
  return get(o, o.kind == Operand::Kind::kFloat ? t : Type{'b', t.bits});
}

// The old values of all lanes.
Emitter::Value* Emitter::atomic_element(const Instruction& in, const Type& t, AtomicOp op,
                                        const Address& a, Value* value, Value* second) {
  if (second == nullptr) second = value;
  Value* addresses = spill(lanes_of(a));
  const uint32_t small = small_atomic(t);
  const bool in_block = in.in_shared();
  Value* passed = spill(as(value, int_type(t.bits)));
  if (in.opcode == "red" && in_block && op == AtomicOp::kAdd && t.bits == 32 && !t.is_float() &&
      small == 0) {
    call_helper("sg_shared_add32", b_.getVoidTy(), {addresses, mask_, passed});
    return nullptr;  // a reduction has no old values
  }
  auto* out = stack_slot(vector_of(int_type(t.bits)));
  const uint32_t type = small != 0 ? small : static_cast<uint32_t>(atomic_type(t.kind, t.bits));
  const uint32_t code = static_cast<uint32_t>(op) << 8 | type;
  const char* helper = t.bits == 128 ? "sg_atomic128"
                       : small != 0  ? "sg_atomic_small"
                                     : "sg_atomic";
  call_helper(helper, b_.getVoidTy(),
              {i32(code), i32(in_block ? 1 : 0), addresses, mask_, passed,
               spill(as(second, int_type(t.bits))), out});
  return b_.CreateLoad(vector_of(int_type(t.bits)), out);
}

}  // namespace vgpu::softgpu
