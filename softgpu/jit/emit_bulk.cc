// Copies and reductions of many bytes between global and shared memory, done at once; and questions
// for blocks that have not begun. SPDX-License-Identifier: Apache-2.0
#include <cuda.h>

#include "softgpu/jit/async_op.h"
#include "softgpu/jit/emitter.h"
#include "softgpu/jit/tensor_op.h"

namespace vgpu::softgpu {

// The reduction that a modifier names; false when there is none.
bool Emitter::bulk_reduction(const Instruction& in, TensorOp* op) {
  static const struct {
    const char* name;
    TensorOp op;
  } kNames[] = {{"add", TensorOp::kAdd}, {"min", TensorOp::kMin}, {"max", TensorOp::kMax},
                {"inc", TensorOp::kInc}, {"dec", TensorOp::kDec}, {"and", TensorOp::kAnd},
                {"or", TensorOp::kOr},   {"xor", TensorOp::kXor}};
  for (const auto& row : kNames) {
    if (in.has(row.name)) return *op = row.op, true;
  }
  return false;
}

namespace {

// Elements of a bulk reduction, by the names of tensors' types.
bool element_type(const ptx::Type& t, CUtensorMapDataType* type) {
  const bool wide = t.bits == 64, narrow = t.bits == 16;
  if (t.bits != 32 && !wide && !narrow) return false;
  if (t.kind == 'g' && narrow) return *type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, true;
  if (t.kind == 'f') {
    *type = narrow ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
            : wide ? CU_TENSOR_MAP_DATA_TYPE_FLOAT64
                   : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    return true;
  }
  if (narrow || (t.kind != 's' && t.kind != 'u' && t.kind != 'b')) return false;
  if (t.kind == 's')
    *type = wide ? CU_TENSOR_MAP_DATA_TYPE_INT64 : CU_TENSOR_MAP_DATA_TYPE_INT32;
  else
    *type = wide ? CU_TENSOR_MAP_DATA_TYPE_UINT64 : CU_TENSOR_MAP_DATA_TYPE_UINT32;
  return true;
}

}  // namespace

// cp.async.bulk.dst.src.… [dst], [src], size[, [mbarrier]][, policy][, bytes], and groups of them;
// cp.reduce.async.bulk.dst.src.….op.type
void Emitter::bulk_copy(const Instruction& in) {
  if (in.has("commit_group") || in.has("wait_group") || in.has("prefetch")) return;
  std::vector<bool> shared;  // destination, source
  for (const std::string& m : in.modifiers) {
    if (m == "global") shared.push_back(false);
    if (m.rfind("shared", 0) == 0) shared.push_back(true);
  }
  if (shared.size() < 2 || in.operands.size() < 3) return unsupported(in);
  Value* size = get(in.operands[2], {'b', 32});
  Value *to = place_in(in.operands[0], shared[0]), *from = place_in(in.operands[1], shared[1]);
  if (in.has("multicast::cluster")) return multicast(in, to, from, size);
  if (in.has("reduce")) {
    Type t;
    TensorOp op = TensorOp::kAdd;
    CUtensorMapDataType type;
    if (!in.type_from_end(0, &t) || !element_type(t, &type) || !bulk_reduction(in, &op))
      return unsupported(in);
    call_helper("sg_reduce_bulk", b_.getVoidTy(),
                {i32(static_cast<uint32_t>(op)), i32(type), to, from, mask_, spill(size)});
  } else if (in.has("cp_mask")) {
    if (in.operands.size() < 4) return unsupported(in);
    Value* bytes = as(get(in.operands.back(), {'b', 16}), int_type(32));
    call_helper("sg_copy_masked", b_.getVoidTy(), {to, from, mask_, spill(size), spill(bytes)});
  } else {
    call_helper("sg_copy_bulk", b_.getVoidTy(), {to, from, mask_, spill(size)});
  }
  if (!in.has("mbarrier::complete_tx::bytes")) return;
  if (in.operands.size() < 4) return unsupported(in);
  mbarrier_call(static_cast<uint32_t>(MbarrierOp::kComplete), place_in(in.operands[3], true), size);
}

// st.bulk.shared::cta [a], bytes, 0
void Emitter::clear_bulk(const Instruction& in) {
  if (in.operands.size() != 3 || in.operands[2].kind != Operand::Kind::kInteger ||
      in.operands[2].integer != 0)
    return unsupported(in);
  call_helper(
      "sg_clear", b_.getVoidTy(),
      {place_in(in.operands[0], in.in_shared()), mask_, spill(get(in.operands[1], {'b', 64}))});
}

// clusterlaunchcontrol.try_cancel.… [answer], [mbarrier]: whoever asks for the place of a block
// that has not begun is told that there is none, as on hardware when all have begun: blocks are
// handed out as fast as threads take them. query_cancel.… d, answer: its lowest bit, and words
// above it.
void Emitter::launch_control(const Instruction& in) {
  if (in.has("try_cancel")) {
    if (in.operands.size() != 2 || in.has("multicast::cluster::all")) return unsupported(in);
    const bool shared = in.in_shared();
    call_helper("sg_clear", b_.getVoidTy(),
                {place_in(in.operands[0], shared), mask_, spill(i64(16))});
    mbarrier_call(static_cast<uint32_t>(MbarrierOp::kComplete), place_in(in.operands[1], shared),
                  i64(16));
    return;
  }
  if (!in.has("query_cancel") || in.operands.size() != 2) return unsupported(in);
  Value* answer = get(in.operands[1], {'b', 128});
  const auto word = [&](unsigned i) {
    Value* moved = b_.CreateLShr(answer, llvm::ConstantInt::get(answer->getType(), 32 * i));
    return b_.CreateTrunc(moved, shaped(int_type(32), moved));
  };
  const Operand& d = in.operands[0];
  if (in.has("is_canceled")) {
    Value* flag = b_.CreateAnd(word(0), llvm::ConstantInt::get(word(0)->getType(), 1));
    return set(d, b_.CreateICmpNE(flag, llvm::Constant::getNullValue(flag->getType())));
  }
  if (d.kind == Operand::Kind::kVector) {
    for (size_t i = 0; i < d.elements.size() && i < 4; ++i)
      set(d.elements[i], word(i < 3 ? static_cast<unsigned>(i) + 1 : 0));
    return;
  }
  const unsigned axis = in.has("get_first_ctaid::y") ? 1 : in.has("get_first_ctaid::z") ? 2 : 0;
  set(d, word(axis + 1));
}

}  // namespace vgpu::softgpu
