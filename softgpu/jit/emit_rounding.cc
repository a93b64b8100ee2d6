// Arithmetic that does not round to nearest: in functions of its own, which set the processor's
// rounding and put it back. Nothing else can be moved in there, and what rounds to nearest stays as
// it is. SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/emitter.h"

namespace vgpu::softgpu {
namespace {

// llvm.set.rounding's numbers.
constexpr uint32_t kTowardsZero = 0, kNearest = 1, kUp = 2, kDown = 3;

uint32_t number_of(const std::string& mode) {
  return mode == "rz" ? kTowardsZero : mode == "rp" ? kUp : kDown;
}

std::string type_name(llvm::Type* t) {
  std::string text;
  llvm::raw_string_ostream(text) << *t;
  return text;
}

}  // namespace

std::string Emitter::direction(const Instruction& in) {
  for (const char* mode : {"rz", "rm", "rp"}) {
    if (in.has(mode)) return mode;
  }
  return {};
}

Emitter::Value* Emitter::rounded(llvm::Intrinsic::ID constrained, const std::string& mode,
                                 llvm::Type* result, const Values& args) {
  std::vector<llvm::Type*> types;
  for (Value* a : args) types.push_back(a->getType());
  const std::string name = "rounded." + mode + "." + std::to_string(constrained) + "." +
                           type_name(result) + type_name(types[0]);
  llvm::Function* f = module_->getFunction(name);
  if (f == nullptr) {
    f = llvm::Function::Create(llvm::FunctionType::get(result, types, false),
                               llvm::Function::InternalLinkage, name, module_);
    f->addFnAttr(llvm::Attribute::NoInline);
    f->addFnAttr(llvm::Attribute::StrictFP);
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(context_, "", f));
    b.setIsFPConstrained(true);
    auto note = [&](const char* text) {
      return llvm::MetadataAsValue::get(context_, llvm::MDString::get(context_, text));
    };
    Values all;
    for (llvm::Argument& a : f->args()) all.push_back(&a);
    std::vector<llvm::Type*> overloads{result};
    if (types[0] != result) overloads.push_back(types[0]);
    all.push_back(note("round.dynamic"));
    all.push_back(note("fpexcept.ignore"));
    auto* set = llvm::Intrinsic::getDeclaration(module_, llvm::Intrinsic::set_rounding);
    b.CreateCall(set, {i32(number_of(mode))})->addFnAttr(llvm::Attribute::StrictFP);
    auto* r = b.CreateCall(llvm::Intrinsic::getDeclaration(module_, constrained, overloads), all);
    r->addFnAttr(llvm::Attribute::StrictFP);
    b.CreateCall(set, {i32(kNearest)})->addFnAttr(llvm::Attribute::StrictFP);
    b.CreateRet(r);
  }
  return b_.CreateCall(f, args);
}

}  // namespace vgpu::softgpu
