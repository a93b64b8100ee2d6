// Calls of runtime services, and the table of opcodes.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

// The argument areas are local variables; each helper gets lane addresses of the areas and the mask.
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
    call_helper("sg_assert", b_.getVoidTy(), {args[0], args[1], args[2], args[3], args[4], args[5]});
    b_.CreateRet(i32(static_cast<uint64_t>(static_cast<int64_t>(kWarpAssert))));
    b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "", function_));
  } else {
    unsupported(in, "call of " + name);
  }
}

const std::map<std::string, Emitter::Handler>& Emitter::handlers() {
  static const std::map<std::string, Handler> kHandlers = {
      {"add", &Emitter::add_sub},        {"sub", &Emitter::add_sub},         {"addc", &Emitter::add_sub},
      {"subc", &Emitter::add_sub},       {"mul", &Emitter::multiply},        {"mad", &Emitter::multiply},
      {"madc", &Emitter::multiply},      {"mul24", &Emitter::multiply},      {"mad24", &Emitter::multiply},
      {"div", &Emitter::divide},         {"rem", &Emitter::divide},          {"min", &Emitter::min_max},
      {"max", &Emitter::min_max},        {"and", &Emitter::bitwise},         {"or", &Emitter::bitwise},
      {"xor", &Emitter::bitwise},        {"not", &Emitter::bitwise},         {"cnot", &Emitter::bitwise},
      {"shl", &Emitter::shift},          {"shr", &Emitter::shift},           {"shf", &Emitter::funnel_shift},
      {"popc", &Emitter::bit_count},     {"clz", &Emitter::bit_count},       {"brev", &Emitter::bit_count},
      {"bfind", &Emitter::bit_count},    {"bfe", &Emitter::bit_field},       {"bfi", &Emitter::bit_field},
      {"bmsk", &Emitter::bit_field},     {"prmt", &Emitter::permute_bytes},  {"lop3", &Emitter::lop3},
      {"abs", &Emitter::absolute},       {"neg", &Emitter::negate},          {"dp4a", &Emitter::dot_product},
      {"sad", &Emitter::sad},            {"fma", &Emitter::fused},           {"sqrt", &Emitter::float_unary},
      {"rsqrt", &Emitter::float_unary},  {"rcp", &Emitter::float_unary},     {"ex2", &Emitter::float_unary},
      {"lg2", &Emitter::float_unary},    {"sin", &Emitter::float_unary},     {"cos", &Emitter::float_unary},
      {"tanh", &Emitter::float_unary},   {"copysign", &Emitter::copysign},   {"testp", &Emitter::testp},
      {"mov", &Emitter::mov},            {"cvt", &Emitter::cvt},             {"cvta", &Emitter::cvta},
      {"setp", &Emitter::setp},          {"set", &Emitter::set_compare},     {"selp", &Emitter::selp},
      {"slct", &Emitter::slct},          {"isspacep", &Emitter::isspacep},   {"ld", &Emitter::load},
      {"ldu", &Emitter::load},           {"st", &Emitter::store},            {"prefetch", &Emitter::prefetch},
      {"prefetchu", &Emitter::prefetch}, {"discard", &Emitter::prefetch},    {"nanosleep", &Emitter::prefetch},
      {"pmevent", &Emitter::prefetch},   {"membar", &Emitter::fence},        {"fence", &Emitter::fence},
      {"atom", &Emitter::atomic},        {"red", &Emitter::atomic},          {"shfl", &Emitter::shuffle},
      {"vote", &Emitter::vote},          {"activemask", &Emitter::activemask}, {"match", &Emitter::match},
      {"redux", &Emitter::redux},        {"bar", &Emitter::warp_barrier},    {"barrier", &Emitter::warp_barrier},
      {"call", &Emitter::call},          {"trap", &Emitter::trap},           {"brkpt", &Emitter::trap}};
  return kHandlers;
}

}  // namespace vgpu::softgpu
