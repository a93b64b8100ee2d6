// Types, registers and operands.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {

Emitter::Emitter(const Kernel& kernel, const Variant& variant, const SymbolResolver& resolver,
                 llvm::Module* module)
    : kernel_(kernel),
      variant_(variant),
      resolver_(resolver),
      context_(module->getContext()),
      module_(module),
      b_(context_) {}

void Emitter::unsupported(const Instruction& in, const std::string& why) {
  std::string text = in.opcode;
  for (const std::string& m : in.modifiers) text += "." + m;
  refuse({in.line, in.column, "'" + text + "' is not supported" + (why.empty() ? "" : ": " + why)});
}

void Emitter::refuse(Diagnostic diagnostic) {
  if (refusals_ != nullptr) {
    refusals_->push_back(std::move(diagnostic));
  } else if (!failed_) {
    failed_ = true;
    error_ = std::move(diagnostic);
  }
}

llvm::Type* Emitter::scalar_type(const Type& t) {
  if (t.kind == 'p') return int_type(1);
  if (t.kind == 'f' && t.bits == 16) return llvm::Type::getHalfTy(context_);
  if (t.kind == 'f' && t.bits == 32) return llvm::Type::getFloatTy(context_);
  if (t.kind == 'f') return llvm::Type::getDoubleTy(context_);
  return int_type(t.bits);
}

llvm::Type* Emitter::shaped(llvm::Type* scalar, Value* like) {
  return is_vector(like) ? vector_of(scalar) : scalar;
}

void Emitter::unify(Value** a, Value** b) {
  if (is_vector(*a) == is_vector(*b)) return;
  *a = splat(*a);
  *b = splat(*b);
}

void Emitter::unify(Value** a, Value** b, Value** c) {
  if (!is_vector(*a) && !is_vector(*b) && !is_vector(*c)) return;
  *a = splat(*a);
  *b = splat(*b);
  *c = splat(*c);
}

Emitter::Value* Emitter::iota(unsigned bits) {
  std::vector<llvm::Constant*> lanes;
  for (unsigned i = 0; i < variant_.lanes; ++i)
    lanes.push_back(llvm::ConstantInt::get(int_type(bits), i));
  return llvm::ConstantVector::get(lanes);
}

Emitter::Value* Emitter::as(Value* v, llvm::Type* want) {
  llvm::Type* have = v->getType()->getScalarType();
  if (have == want) return v;
  const unsigned from = have->getPrimitiveSizeInBits(), to = want->getPrimitiveSizeInBits();
  if (!have->isIntegerTy()) v = b_.CreateBitCast(v, shaped(int_type(from), v));
  if (from != to) v = b_.CreateZExtOrTrunc(v, shaped(int_type(to), v));
  return want->isIntegerTy() ? v : b_.CreateBitCast(v, shaped(want, v));
}

Emitter::Value* Emitter::mask_vector(Value* mask) {
  return b_.CreateBitCast(b_.CreateTrunc(mask, int_type(variant_.lanes)), vector_of(int_type(1)));
}

Emitter::Value* Emitter::mask_bits(Value* v) {
  if (is_vector(v)) {
    return b_.CreateZExt(b_.CreateBitCast(v, int_type(variant_.lanes)), int_type(32));
  }
  return b_.CreateSExt(v, int_type(32));
}

Emitter::Value* Emitter::context_field(size_t offset, llvm::Type* t) {
  return b_.CreateAlignedLoad(t, b_.CreateConstInBoundsGEP1_64(int_type(8), warp_, offset),
                              llvm::Align(4));
}

void Emitter::set_context_field(size_t offset, Value* v) {
  b_.CreateAlignedStore(v, b_.CreateConstInBoundsGEP1_64(int_type(8), warp_, offset),
                        llvm::Align(4));
}

int64_t Emitter::stride_of(const Operand& o) const {
  switch (o.kind) {
    case Operand::Kind::kInteger:
    case Operand::Kind::kFloat:
      return 0;
    case Operand::Kind::kRegister:
      return kernel_.stride[o.reg];
    case Operand::Kind::kSpecial:
      if (kernel_.lane_by_lane) return 0;
      if (o.symbol == "%laneid") return 1;
      if (o.symbol == "%tid.x") return variant_.full_rows() ? 1 : Kernel::kNotAffine;
      if (o.symbol == "%tid.y" || o.symbol == "%tid.z")
        return variant_.full_rows() ? 0 : Kernel::kNotAffine;
      return o.symbol.rfind("%lane", 0) == 0 ? Kernel::kNotAffine : 0;
    case Operand::Kind::kSymbol: {
      auto v = kernel_.function.variables.find(o.symbol);
      const bool local =
          v != kernel_.function.variables.end() && v->second.space == ptx::Space::kLocal;
      return local ? kernel_.function.local_slice() : 0;
    }
    default:
      return Kernel::kNotAffine;
  }
}

Emitter::Value* Emitter::raw_register(int r) {
  return b_.CreateLoad(registers_[r]->getAllocatedType(), registers_[r]);
}

Emitter::Value* Emitter::register_value(int r) {
  Value* v = raw_register(r);
  const int64_t stride = kernel_.stride[r];
  if (stride == 0 || stride == Kernel::kNotAffine) return v;
  const unsigned bits = v->getType()->getPrimitiveSizeInBits();
  Value* steps =
      b_.CreateMul(iota(bits), splat(constant(int_type(bits), static_cast<uint64_t>(stride))));
  return b_.CreateAdd(splat(v), steps);
}

Emitter::Value* Emitter::immediate(const Operand& o, const Type& t) {
  llvm::Type* type = scalar_type(t);
  if (o.kind == Operand::Kind::kInteger) {
    if (t.is_float() && t.bits == 16) {  // 16-bit floats are written as their bits
      return llvm::ConstantFP::get(
          type, llvm::APFloat(llvm::APFloat::IEEEhalf(),
                              llvm::APInt(16, static_cast<uint64_t>(o.integer) & 0xffff)));
    }
    if (t.is_float()) return llvm::ConstantFP::get(type, static_cast<double>(o.integer));
    return llvm::ConstantInt::get(type, static_cast<uint64_t>(o.integer));
  }
  double value;
  if (o.is_double) {
    std::memcpy(&value, &o.float_bits, sizeof value);
    if (t.is_float()) return llvm::ConstantFP::get(type, value);
    return t.bits == 64 ? i64(o.float_bits)
                        : as(llvm::ConstantFP::get(llvm::Type::getFloatTy(context_), value), type);
  }
  return as(i32(o.float_bits), type);  // the bits of a float
}

Emitter::Value* Emitter::get(const Operand& o, const Type& t) {
  llvm::Type* type = scalar_type(t);
  switch (o.kind) {
    case Operand::Kind::kRegister: {
      Value* v = as(register_value(o.reg), type);
      return o.negated ? b_.CreateNot(v) : v;
    }
    case Operand::Kind::kInteger:
    case Operand::Kind::kFloat:
      return immediate(o, t);
    case Operand::Kind::kSpecial:
      return as(special(o.symbol), type);
    case Operand::Kind::kSymbol: {
      Value* v = symbol_address(o);
      const int64_t stride = stride_of(o);
      if (stride != 0)
        v = b_.CreateAdd(splat(v),
                         b_.CreateMul(iota(64), splat(i64(static_cast<uint64_t>(stride)))));
      return as(v, type);
    }
    default:
      break;
  }
  refuse({0, 0, "operand of an unexpected form in " + kernel_.name});
  return llvm::UndefValue::get(type);
}

Emitter::Value* Emitter::get_lane0(const Operand& o, const Type& t) {
  llvm::Type* type = scalar_type(t);
  if (o.kind == Operand::Kind::kRegister && !o.negated) return as(raw_register(o.reg), type);
  if (o.kind == Operand::Kind::kSymbol) return as(symbol_address(o), type);
  if (o.kind == Operand::Kind::kSpecial && o.symbol == "%laneid") {
    return as(b_.CreateExtractElement(lane_ids(), uint64_t{0}), type);
  }
  if (o.kind == Operand::Kind::kSpecial && o.symbol == "%tid.x" && !kernel_.lane_by_lane) {
    return as(context_field(offsetof(WarpContext, tid), int_type(32)), type);
  }
  return get(o, t);
}

// A warp's lanes are numbered from 0; a thread that is run alone computes its number from its
// place.
Emitter::Value* Emitter::lane_ids() {
  if (variant_.lanes == kWarpLanes) return iota(32);
  auto word = [&](size_t field, size_t axis, size_t step) {
    return context_field(field + axis * step, int_type(32));
  };
  constexpr size_t kTid = offsetof(WarpContext, tid), kNtid = offsetof(WarpContext, ntid);
  Value* id = word(kTid, 2, kWarpLanes * 4);
  for (size_t axis : {1, 0}) {
    id = b_.CreateAdd(b_.CreateMul(id, word(kNtid, axis, 4)), word(kTid, axis, kWarpLanes * 4));
  }
  return splat(b_.CreateAnd(id, i32(31)));
}

Emitter::Value* Emitter::special(const std::string& name) {
  static const std::map<std::string, size_t> kWords = {
      {"%ntid.x", offsetof(WarpContext, ntid)},
      {"%ntid.y", offsetof(WarpContext, ntid) + 4},
      {"%ntid.z", offsetof(WarpContext, ntid) + 8},
      {"%ctaid.x", offsetof(WarpContext, ctaid)},
      {"%ctaid.y", offsetof(WarpContext, ctaid) + 4},
      {"%ctaid.z", offsetof(WarpContext, ctaid) + 8},
      {"%nctaid.x", offsetof(WarpContext, nctaid)},
      {"%nctaid.y", offsetof(WarpContext, nctaid) + 4},
      {"%nctaid.z", offsetof(WarpContext, nctaid) + 8},
      {"%warpid", offsetof(WarpContext, warp_id)},
      {"%nwarpid", offsetof(WarpContext, warp_count)},
      {"%smid", offsetof(WarpContext, sm_id)},
      {"%nsmid", offsetof(WarpContext, sm_count)},
      {"%dynamic_smem_size", offsetof(WarpContext, dynamic_shared_bytes)},
      {"%total_smem_size", offsetof(WarpContext, total_shared_bytes)},
      {"%envreg2", offsetof(WarpContext, workspace)},
      {"%envreg1", offsetof(WarpContext, workspace) + 4}};
  auto word = kWords.find(name);
  if (word != kWords.end()) return context_field(word->second, int_type(32));
  const std::string base = name.substr(0, 4);
  if (base == "%tid") {
    const size_t axis = name == "%tid.x" ? 0 : name == "%tid.y" ? 1 : 2;
    const size_t at = offsetof(WarpContext, tid) + axis * kWarpLanes * 4;
    if (kernel_.lane_by_lane) {
      Value* lane = context_field(offsetof(WarpContext, lane), int_type(32));
      Value* row = b_.CreateConstInBoundsGEP1_64(int_type(8), warp_, at);
      return b_.CreateLoad(int_type(32), b_.CreateInBoundsGEP(int_type(32), row, lane));
    }
    if (axis != 0 && variant_.full_rows()) return context_field(at, int_type(32));
    return context_field(at, vector_of(int_type(32)));
  }
  if (name == "%laneid") return lane_ids();
  if (name == "WARP_SZ") return i32(kWarpLanes);
  if (name == "%gridid") return context_field(offsetof(WarpContext, grid_id), int_type(64));
  if (name.rfind("%lanemask_", 0) == 0) {
    const std::string kind = name.substr(10);
    Value* own = b_.CreateShl(splat(i32(1)), lane_ids());
    Value* below = b_.CreateSub(own, splat(i32(1)));
    if (kind == "eq") return own;
    if (kind == "lt") return below;
    if (kind == "le") return b_.CreateOr(below, own);
    if (kind == "ge") return b_.CreateNot(below);
    return b_.CreateNot(b_.CreateOr(below, own));
  }
  if (name == "%clock64" || name == "%clock" || name == "%clock_hi" ||
      name.rfind("%globaltimer", 0) == 0) {
    Value* t = call_helper(name[1] == 'c' ? "sg_clock" : "sg_timer", int_type(64), {});
    const bool high = name.size() > 3 && name.compare(name.size() - 3, 3, "_hi") == 0;
    return high ? b_.CreateLShr(t, i64(32)) : t;
  }
  if (name.rfind("%envreg", 0) == 0) return i32(0);
  if (Value* v = cluster_special(name); v != nullptr) return v;
  if (name == "%aggr_smem_size") return special("%total_smem_size");
  if (name.rfind("%pm", 0) == 0 || name.rfind("%reserved_smem", 0) == 0 ||
      name.rfind("%current_graph", 0) == 0) {
    return i64(0);
  }
  refuse({0, 0, "special register '" + name + "' is not supported"});
  return i32(0);
}

Emitter::Value* Emitter::symbol_address(const Operand& o) {
  const auto own = kernel_.function.variables.find(o.symbol);
  const auto shared_by_all = kernel_.module->variables.find(o.symbol);
  const ptx::Variable* v = own != kernel_.function.variables.end() ? &own->second
                           : shared_by_all != kernel_.module->variables.end()
                               ? &shared_by_all->second
                               : nullptr;
  const uint64_t extra = static_cast<uint64_t>(o.integer);
  if (v != nullptr && v->space == ptx::Space::kShared) {
    const uint32_t dynamic_base = (kernel_.shared.bytes + 15) / 16 * 16;
    const auto placed = kernel_.shared.place.find(v->offset);
    const uint32_t at = placed == kernel_.shared.place.end() ? v->offset : placed->second;
    Value* place = i64((v->dynamic ? dynamic_base : at) + extra);
    if (!variant_.clustered) return place;
    Value* window = cluster_word(offsetof(ClusterPlace, window));
    return b_.CreateAdd(b_.CreateZExt(window, int_type(64)), place);
  }
  if (v != nullptr && v->space == ptx::Space::kLocal) {
    Value* base = context_field(offsetof(WarpContext, local), int_type(64));
    return b_.CreateAdd(base, i64(v->offset + extra));
  }
  if (v != nullptr && v->space == ptx::Space::kParam) {
    Value* base = context_field(offsetof(WarpContext, params), int_type(64));
    return b_.CreateAdd(base, i64(v->offset + extra));
  }
  return b_.CreateAdd(global_address(o.symbol), i64(extra));
}

// Read from a table, so that the code is good for every module loaded from the same text.
Emitter::Value* Emitter::global_address(const std::string& name) {
  if (!resolver_ || resolver_(name) == 0) refuse({0, 0, "symbol '" + name + "' is not defined"});
  auto found = std::find(symbols_.begin(), symbols_.end(), name);
  const auto index = static_cast<uint64_t>(found - symbols_.begin());
  if (found == symbols_.end()) symbols_.push_back(name);
  llvm::Type* pointer_type = llvm::PointerType::get(context_, 0);
  auto* never_changes = llvm::MDNode::get(context_, {});
  auto* table =
      llvm::cast<llvm::LoadInst>(context_field(offsetof(WarpContext, symbols), pointer_type));
  table->setMetadata(llvm::LLVMContext::MD_invariant_load, never_changes);
  auto* address =
      b_.CreateLoad(int_type(64), b_.CreateConstInBoundsGEP1_64(int_type(64), table, index));
  address->setMetadata(llvm::LLVMContext::MD_invariant_load, never_changes);
  return address;
}

Emitter::Value* Emitter::predicate(const Operand& o) { return get(o, {'p', 1}); }

bool Emitter::lane0_result(const Instruction& in) const {
  const Operand& d = in.operands[0];
  return d.kind == Operand::Kind::kRegister && d.second < 0 && scalar_register(d.reg);
}

Emitter::Value* Emitter::source(const Instruction& in, size_t i, const Type& t) {
  return lane0_result(in) ? get_lane0(in.operands[i], t) : get(in.operands[i], t);
}

void Emitter::set_register(int r, Value* v) {
  llvm::Type* type = scalar_type(kernel_.function.registers[r].type);
  v = as(v, type);
  if (kernel_.stride[r] == 0 && is_vector(v)) {  // the same in every running lane
    Value* first = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, mask_, b_.getFalse());
    v = b_.CreateExtractElement(v, first);
  }
  if (!scalar_register(r)) {
    v = splat(v);
    if (guarded_ || kernel_.masked[block_].test(r))
      v = b_.CreateSelect(mask_vector(mask_), v, raw_register(r));
  }
  b_.CreateStore(v, registers_[r]);
}

void Emitter::set(const Operand& destination, Value* v) {
  if (destination.kind == Operand::Kind::kSink || failed_) return;
  if (destination.reg < 0)
    return refuse({0, 0, "a destination that is no register in " + kernel_.name});
  set_register(destination.reg, v);
}

llvm::AllocaInst* Emitter::stack_slot(llvm::Type* t) {
  llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
  auto* slot = entry.CreateAlloca(t);
  return slot;
}

Emitter::Value* Emitter::spill(Value* v) {
  v = splat(v);
  if (v->getType()->getScalarType()->isIntegerTy(1)) v = b_.CreateZExt(v, vector_of(int_type(8)));
  auto* slot = stack_slot(v->getType());
  b_.CreateStore(v, slot);
  return slot;
}

Emitter::Value* Emitter::unspill(Value* p, llvm::Type* scalar) {
  return b_.CreateLoad(vector_of(scalar), p);
}

llvm::CallInst* Emitter::call_helper(const char* name, llvm::Type* result,
                                     std::vector<Value*> args) {
  std::vector<llvm::Type*> types;
  for (Value* a : args) types.push_back(a->getType());
  auto callee = module_->getOrInsertFunction(name, llvm::FunctionType::get(result, types, false));
  return b_.CreateCall(callee, args);
}

}  // namespace vgpu::softgpu
