// atom and red: a helper walks the active lanes, since their order must look like one after the
// other. SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/atomic_op.h"
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

void Emitter::atomic(const Instruction& in) {
  Type t;
  if (!in.type_from_end(0, &t)) return unsupported(in, "no type");
  const bool red = in.opcode == "red";
  AtomicOp op = AtomicOp::kAdd;
  bool found = false;
  for (const std::string& m : in.modifiers) found = found || parse_atomic_op(m, &op);
  const AtomicType type = atomic_type(t.kind, t.bits);
  if (!found || type == AtomicType::kNone || in.has("v2") || in.has("v4")) return unsupported(in);
  const size_t at = red ? 0 : 1;
  const Address a = address(in.operands[at], in);
  const Type bits{'b', t.bits};
  const Operand& value = in.operands[at + 1];
  Value* v = get(value, value.kind == Operand::Kind::kFloat ? t : bits);
  Value* second = op == AtomicOp::kCas ? get(in.operands[at + 2], bits) : v;
  Value* addresses = spill(lanes_of(a));
  auto pass = [&](Value* x) {
    x = splat(x);
    auto* slot = stack_slot(x->getType());
    b_.CreateStore(x, slot);
    return slot;
  };
  auto* out = stack_slot(vector_of(int_type(t.bits)));
  const uint32_t code = static_cast<uint32_t>(op) << 8 | static_cast<uint32_t>(type);
  const bool in_block = in.has("shared") || in.has("shared::cta");
  call_helper("sg_atomic", b_.getVoidTy(),
              {i32(code), i32(in_block ? 1 : 0), addresses, mask_, pass(v), pass(second), out});
  if (!red) set(in.operands[0], b_.CreateLoad(vector_of(int_type(t.bits)), out));
}

}  // namespace vgpu::softgpu
