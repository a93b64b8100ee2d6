// Optimises and links LLVM modules into the process.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/engine.h"

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include <atomic>
#include <mutex>

#include "softgpu/jit/emitter.h"
#include "softgpu/jit/runtime.h"

namespace vgpu::softgpu {

struct Engine::State {
  std::unique_ptr<llvm::orc::LLJIT> jit;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::mutex mutex;  // one compilation at a time: the target machine is not thread-safe
  uint64_t count = 0;
  std::string failure;
};

namespace {

std::string text_of(llvm::Error e) { return llvm::toString(std::move(e)); }

void define_runtime(llvm::orc::LLJIT* jit) {
  llvm::orc::SymbolMap symbols;
  auto add = [&](std::span<const RuntimeSymbol> list) {
    for (const RuntimeSymbol& s : list) {
      symbols[jit->mangleAndIntern(s.name)] = {
          llvm::orc::ExecutorAddr::fromPtr(s.address),
          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    }
  };
  add(runtime_memory_symbols());
  add(runtime_warp_symbols());
  add(runtime_sync_symbols());
  add(runtime_service_symbols());
  add(runtime_convert_symbols());
  add(runtime_texture_symbols());
  add(runtime_surface_symbols());
  add(runtime_matrix_symbols());
  add(runtime_async_symbols());
  auto c_function = [&](const char* name, void* address) {
    symbols[jit->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                           llvm::JITSymbolFlags::Exported};
  };
  c_function("memcpy", reinterpret_cast<void*>(&std::memcpy));
  c_function("memset", reinterpret_cast<void*>(&std::memset));
  llvm::cantFail(jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
}

}  // namespace

Engine& Engine::instance() {
  static Engine* const engine = new Engine;
  return *engine;
}

Engine::Engine() : state_(new State) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto builder = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!builder) {
    state_->failure = text_of(builder.takeError());
    return;
  }
  builder->setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  auto machine = builder->createTargetMachine();
  auto jit = llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(*builder).create();
  if (!machine || !jit) {
    state_->failure = !machine ? text_of(machine.takeError()) : text_of(jit.takeError());
    return;
  }
  state_->machine = std::move(*machine);
  state_->jit = std::move(*jit);
  define_runtime(state_->jit.get());
}

namespace {

void optimise(llvm::Module* module, llvm::TargetMachine* machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;  // it is vectors already
  tuning.SLPVectorization = false;
  tuning.LoopUnrolling = false;
  llvm::PassBuilder builder(machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O1).run(*module, modules);
}

}  // namespace

bool Engine::compile(const Kernel& kernel, const Variant& variant, const SymbolResolver& resolver,
                     CompiledKernel* out, Diagnostic* error) {
  std::lock_guard lock(state_->mutex);
  if (!state_->failure.empty()) {
    *error = {0, 0, "no compiler for this processor: " + state_->failure};
    return false;
  }
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = std::make_unique<llvm::Module>("kernel", *context);
  module->setDataLayout(state_->jit->getDataLayout());
  module->setTargetTriple(state_->jit->getTargetTriple().str());
  const std::string name = "kernel" + std::to_string(++state_->count);
  Emitter emitter(kernel, variant, resolver, module.get());
  llvm::Function* function = emitter.run(name, error);
  if (function == nullptr) return false;
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyFunction(*function, &stream)) {
    *error = {0, 0, "internal: bad code for " + kernel.name + ": " + problem};
    return false;
  }
  optimise(module.get(), state_->machine.get());
  llvm::orc::ThreadSafeModule safe(std::move(module), std::move(context));
  if (auto e = state_->jit->addIRModule(std::move(safe))) {
    *error = {0, 0, text_of(std::move(e))};
    return false;
  }
  auto symbol = state_->jit->lookup(name);
  if (!symbol) {
    *error = {0, 0, text_of(symbol.takeError())};
    return false;
  }
  out->entry = symbol->toPtr<int (*)(WarpContext*)>();
  out->save_bytes = emitter.save_bytes();
  return true;
}

std::vector<Diagnostic> Engine::refusals(const Kernel& kernel, const Variant& variant) {
  llvm::LLVMContext context;
  llvm::Module module("refusals", context);
  std::vector<Diagnostic> list;
  const SymbolResolver anywhere = [](std::string_view) { return uint64_t{1} << 32; };
  Emitter emitter(kernel, variant, anywhere, &module);
  emitter.collect_refusals(&list);
  Diagnostic error;
  emitter.run("kernel", &error);
  return list;
}

}  // namespace vgpu::softgpu
