// Calls of runtime services, and the table of opcodes.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

// The argument areas are local variables; each helper gets lane addresses of the areas and the
// mask.
void Emitter::call(const Instruction& in) {
  const std::string& name = in.operands[1].symbol;
  std::vector<Value*> args{warp_, mask_};
  for (const Operand& o : in.operands[2].elements) {
    Address a;
    Operand s = o;
    s.kind = Operand::Kind::kSymbol;
    a.lane0 = symbol_address(s);
    a.stride = stride_of(s);
    args.push_back(spill(lanes_of(a)));
  }
  Value* result = llvm::ConstantPointerNull::get(llvm::PointerType::get(context_, 0));
  if (!in.operands[0].elements.empty()) {
    Address a;
    Operand s = in.operands[0].elements[0];
    s.kind = Operand::Kind::kSymbol;
    a.lane0 = symbol_address(s);
    a.stride = stride_of(s);
    result = spill(lanes_of(a));
  }
  if (name == "vprintf" && in.operands[2].elements.size() == 2) {
    call_helper("sg_vprintf", b_.getVoidTy(), {args[0], args[1], args[2], args[3], result});
  } else if (name == "malloc" && in.operands[2].elements.size() == 1) {
    call_helper("sg_malloc", b_.getVoidTy(), {args[0], args[1], args[2], result});
  } else if (name == "free" && in.operands[2].elements.size() == 1) {
    call_helper("sg_free", b_.getVoidTy(), {args[0], args[1], args[2]});
  } else if (name == "__assertfail" && in.operands[2].elements.size() == 5) {
    set_context_field(offsetof(WarpContext, fault_line), i32(static_cast<uint64_t>(in.line)));
    call_helper("sg_assert", b_.getVoidTy(),
                {args[0], args[1], args[2], args[3], args[4], args[5]});
    b_.CreateRet(i32(static_cast<uint64_t>(static_cast<int64_t>(kWarpAssert))));
    b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "", function_));
  } else {
    unsupported(in, "call of " + name);
  }
}

const std::map<std::string, Emitter::Handler>& Emitter::handlers() {
  static const std::map<std::string, Handler> kHandlers = {
#include "softgpu/jit/opcodes.inc"
  };
  return kHandlers;
}

}  // namespace vgpu::softgpu
