// Calls of runtime services, and the table of opcodes.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

// Addresses of an argument area in every lane, as a pointer to 32 of them: a local variable, or a
// register in functions whose variables are on the stack.
Emitter::Value* Emitter::lane_addresses(const Operand& o) {
  if (o.kind == Operand::Kind::kRegister) return spill(get(o, {'u', 64}));
  Address a;
  Operand s = o;
  s.kind = Operand::Kind::kSymbol;
  a.lane0 = symbol_address(s);
  a.stride = stride_of(s);
  return spill(lanes_of(a));
}

// frame.u64 d, offset: each lane's address in its stack.
void Emitter::frame(const Instruction& in) {
  Value* base = context_field(offsetof(WarpContext, stack), int_type(64));
  Value* each =
      b_.CreateZExt(context_field(offsetof(WarpContext, stack_bytes), int_type(32)), int_type(64));
  Value* offset = b_.CreateZExt(splat(get(in.operands[1], {'u', 32})), vector_of(int_type(64)));
  Value* lanes = b_.CreateAdd(splat(base), b_.CreateMul(iota(64), splat(each)));
  set(in.operands[0], b_.CreateAdd(lanes, offset));
}

// stackcheck offset: a fault when a running lane's stack is smaller.
void Emitter::stack_check(const Instruction& in) {
  Value* top = get(in.operands[0], {'u', 32});
  Value* limit = context_field(offsetof(WarpContext, stack_bytes), int_type(32));
  Value* over = b_.CreateICmpUGT(top, is_vector(top) ? splat(limit) : limit);
  Value* bad = b_.CreateAnd(mask_bits(over), mask_);
  auto* fault = llvm::BasicBlock::Create(context_, "overflow", function_);
  auto* fine = llvm::BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(b_.CreateICmpNE(bad, i32(0)), fault, fine);
  b_.SetInsertPoint(fault);
  set_context_field(offsetof(WarpContext, fault_line), i32(static_cast<uint64_t>(in.line)));
  b_.CreateRet(i32(static_cast<uint64_t>(static_cast<int64_t>(kWarpStackOverflow))));
  b_.SetInsertPoint(fine);
}

// switch r, {label = value, …}: every lane to its label.
void Emitter::jump_table(int b, const Instruction& in) {
  Value* which = get(in.operands[0], {'u', 32});
  Value* left = mask_;
  for (const auto& [value, target] : kernel_.blocks[b].cases) {
    Value* number = i32(static_cast<uint64_t>(value));
    Value* same = b_.CreateICmpEQ(which, is_vector(which) ? splat(number) : number);
    Value* taken = b_.CreateAnd(mask_bits(same), left);
    add_pending(target, taken);
    left = b_.CreateAnd(left, b_.CreateNot(taken));
  }
  auto* fault = llvm::BasicBlock::Create(context_, "astray", function_);
  auto* fine = llvm::BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(b_.CreateICmpNE(left, i32(0)), fault, fine);
  b_.SetInsertPoint(fault);
  set_context_field(offsetof(WarpContext, fault_line), i32(static_cast<uint64_t>(in.line)));
  b_.CreateRet(i32(static_cast<uint64_t>(static_cast<int64_t>(kWarpBadTarget))));
  b_.SetInsertPoint(fine);
}

// One helper for all of the device runtime: it gets a list of lane addresses.
void Emitter::call_device(DeviceCall which, const std::vector<Value*>& arguments, Value* result) {
  llvm::Type* const pointer = llvm::PointerType::get(context_, 0);
  llvm::Type* const list_type = llvm::ArrayType::get(pointer, kDeviceCallArgumentsMax);
  llvm::AllocaInst* const list = stack_slot(list_type);
  for (unsigned i = 0; i < arguments.size(); ++i)
    b_.CreateStore(arguments[i], b_.CreateConstInBoundsGEP2_32(list_type, list, 0, i));
  call_helper("sg_device_calls", b_.getVoidTy(),
              {warp_, mask_, i32(static_cast<uint64_t>(which)), list, result});
}

// Each helper gets lane addresses of the argument areas, and the mask.
void Emitter::call(const Instruction& in) {
  const std::string& name = in.operands[1].symbol;
  std::vector<Value*> args{warp_, mask_};
  for (const Operand& o : in.operands[2].elements) args.push_back(lane_addresses(o));
  Value* result = llvm::ConstantPointerNull::get(llvm::PointerType::get(context_, 0));
  if (!in.operands[0].elements.empty()) result = lane_addresses(in.operands[0].elements[0]);
  if (name == "vprintf" && in.operands[2].elements.size() == 2) {
    call_helper("sg_vprintf", b_.getVoidTy(), {args[0], args[1], args[2], args[3], result});
  } else if (name == "malloc" && in.operands[2].elements.size() == 1) {
    call_helper("sg_malloc", b_.getVoidTy(), {args[0], args[1], args[2], result});
  } else if (name == "free" && in.operands[2].elements.size() == 1) {
    call_helper("sg_free", b_.getVoidTy(), {args[0], args[1], args[2]});
  } else if (name == "cudaGraphSetConditional" && in.operands[2].elements.size() == 2) {
    call_helper("sg_set_conditional", b_.getVoidTy(), {args[0], args[1], args[2], args[3]});
  } else if (name == "__assertfail" && in.operands[2].elements.size() == 5) {
    set_context_field(offsetof(WarpContext, fault_line), i32(static_cast<uint64_t>(in.line)));
    call_helper("sg_assert", b_.getVoidTy(),
                {args[0], args[1], args[2], args[3], args[4], args[5]});
    b_.CreateRet(i32(static_cast<uint64_t>(static_cast<int64_t>(kWarpAssert))));
    b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "", function_));
  } else if (const auto device = device_call(name);
             device.has_value() && device->call != DeviceCall::kUnserved &&
             device->arguments == in.operands[2].elements.size() &&
             in.operands[0].elements.size() == 1) {
    call_device(device->call, {args.begin() + 2, args.end()}, result);
  } else {
    unsupported(in, "call of " + name);
  }
}

const std::map<std::string, Emitter::Handler>& Emitter::handlers() {
  static const std::map<std::string, Handler> kHandlers = {
#define VGPU_OPCODE(name, handler) {#name, &Emitter::handler},
#include "softgpu/ptx/opcodes.inc"
#undef VGPU_OPCODE
  };
  return kHandlers;
}

}  // namespace vgpu::softgpu
