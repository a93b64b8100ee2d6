// Asynchronous copies are done at once, which PTX allows, so that waiting for them is nothing; and
// mbarriers, which count arrivals and copied bytes. SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/async_op.h"
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

Emitter::Value* Emitter::place_in(const Operand& o, bool shared) {
  Instruction plain;
  if (shared) plain.modifiers = {"shared"};
  return spill(lanes_of(address(o, plain)));
}

// cp.async.ca|cg.shared.global [dst], [src], size[, src-size | ignore][, policy]
void Emitter::async_copy(const Instruction& in) {
  if (in.has("tensor")) return tensor_copy(in);
  if (in.has("bulk") || in.has("reduce")) return bulk_copy(in);
  if (!in.has("async")) return unsupported(in);
  if (in.has("commit_group") || in.has("wait_group") || in.has("wait_all")) return;
  if (in.has("mbarrier")) {
    // The copies before are done: without .noinc the arrival undoes its own increment.
    if (in.has("noinc"))
      mbarrier_call(static_cast<uint32_t>(MbarrierOp::kArrive),
                    place_in(in.operands[0], in.in_shared()), i64(1));
    return;
  }
  if (in.operands.size() < 3 || in.operands[2].kind != Operand::Kind::kInteger)
    return unsupported(in);
  Value* size = i32(static_cast<uint64_t>(in.operands[2].integer));
  Value* wanted = size;
  const size_t extra = in.operands.size() - 3 - (in.has("L2::cache_hint") ? 1 : 0);
  if (extra > 0) {
    const Operand& o = in.operands[3];
    const bool is_predicate = o.reg >= 0 && kernel_.function.registers[o.reg].type.kind == 'p';
    wanted = get(o, is_predicate ? Type{'p', 1} : Type{'b', 32});
    if (is_predicate) {  // true: the source is not read, zeros are written
      Value* all = shaped(int_type(32), wanted)->isVectorTy() ? splat(size) : size;
      wanted = b_.CreateSelect(wanted, llvm::Constant::getNullValue(all->getType()), all);
    }
  }
  call_helper("sg_copy", b_.getVoidTy(),
              {place_in(in.operands[0], true), place_in(in.operands[1], false), mask_, size,
               spill(wanted)});
}

Emitter::Value* Emitter::mbarrier_call(uint32_t op, Value* addresses, Value* value) {
  auto* out = stack_slot(vector_of(int_type(64)));
  call_helper("sg_mbarrier", b_.getVoidTy(),
              {i32(op), addresses, mask_, spill(as(value, int_type(64))), out});
  return b_.CreateLoad(vector_of(int_type(64)), out);
}

void Emitter::mbarrier(const Instruction& in) {
  const bool shared = in.in_shared();
  const auto& o = in.operands;
  auto run = [&](MbarrierOp op, size_t at, Value* value) {
    return mbarrier_call(static_cast<uint32_t>(op), place_in(o[at], shared), value);
  };
  auto count = [&](size_t i) -> Value* { return o.size() > i ? get(o[i], {'b', 32}) : i32(1); };
  if (in.has("init")) {
    run(MbarrierOp::kInit, 0, count(1));
  } else if (in.has("inval")) {
    return;
  } else if (in.has("pending_count")) {
    auto* zero = spill(i64(0));
    set(o[0],
        mbarrier_call(static_cast<uint32_t>(MbarrierOp::kPending), zero, get(o[1], {'b', 64})));
  } else if (in.has("complete_tx")) {
    run(MbarrierOp::kComplete, 0, count(1));
  } else if (in.has("arrive") || in.has("arrive_drop")) {
    if (in.has("arrive_drop") && in.has("expect_tx")) run(MbarrierOp::kExpect, 1, count(2));
    const MbarrierOp op = in.has("arrive_drop") ? MbarrierOp::kDrop
                          : in.has("expect_tx") ? MbarrierOp::kExpectAndArrive
                                                : MbarrierOp::kArrive;
    const bool counted = !(in.has("arrive_drop") && in.has("expect_tx"));
    set(o[0], run(op, 1, counted ? count(2) : i32(1)));
  } else if (in.has("expect_tx")) {
    run(MbarrierOp::kExpect, 0, count(1));
  } else if (in.has("test_wait") || in.has("try_wait")) {
    const bool parity = in.has("parity");
    Value* state = get(o[2], {'b', static_cast<uint8_t>(parity ? 32 : 64)});
    Value* done = run(parity ? MbarrierOp::kTestParity : MbarrierOp::kTest, 1, state);
    set(o[0], b_.CreateICmpNE(done, llvm::Constant::getNullValue(done->getType())));
  } else {
    unsupported(in);
  }
}

// createpolicy: there is one policy.
void Emitter::cache_policy(const Instruction& in) { set(in.operands[0], i64(0)); }

}  // namespace vgpu::softgpu
