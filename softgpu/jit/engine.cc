// Optimises LLVM modules, makes machine code of them, and links it into the process.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/engine.h"

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "softgpu/jit/build_id.h"
#include "softgpu/jit/emitter.h"
#include "softgpu/jit/runtime.h"

namespace vgpu::softgpu {

using llvm::orc::LLJIT;

// What one compiling thread needs; a target machine serves one thread at a time.
struct Engine::State {
  std::unique_ptr<LLJIT> jit;
  std::vector<std::unique_ptr<llvm::TargetMachine>> machines;  // the free ones
  std::mutex mutex;
  std::condition_variable freed;
  std::atomic<uint64_t> links{0};
  std::string failure, fingerprint;

  std::unique_ptr<llvm::TargetMachine> take() {
    std::unique_lock lock(mutex);
    freed.wait(lock, [this] { return !machines.empty(); });
    auto machine = std::move(machines.back());
    machines.pop_back();
    return machine;
  }
  void give_back(std::unique_ptr<llvm::TargetMachine> machine) {
    std::lock_guard lock(mutex);
    machines.push_back(std::move(machine));
    freed.notify_one();
  }
};

struct Engine::Emitted {
  llvm::LLVMContext context;  // outlives the module
  std::unique_ptr<llvm::Module> module;
};

namespace {

constexpr char kEntry[] = "kernel";

std::string text_of(llvm::Error e) { return llvm::toString(std::move(e)); }

void define_runtime(LLJIT* jit) {
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
  add(runtime_profile_symbols());
  add(runtime_matrix_symbols());
  add(runtime_async_symbols());
  add(runtime_tensor_symbols());
  add(runtime_device_symbols());
  auto c_function = [&](const char* name, void* address) {
    symbols[jit->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                           llvm::JITSymbolFlags::Exported};
  };
  c_function("memcpy", reinterpret_cast<void*>(&std::memcpy));
  c_function("memset", reinterpret_cast<void*>(&std::memset));
  llvm::cantFail(jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
}

// LLVM's pass that moves masks between kinds of registers walks all paths of blocks that merge
// masks: some small kernels it never finishes. It is there for speed alone.
void switch_off_domain_reassignment() {
  auto& options = llvm::cl::getRegisteredOptions();
  const auto found = options.find("disable-x86-domain-reassignment");
  if (found != options.end()) static_cast<llvm::cl::opt<bool>*>(found->second)->setValue(true);
}

}  // namespace

Engine& Engine::instance() {
  static Engine* const engine = new Engine;
  return *engine;
}

Engine::Engine() : state_(new State) {
  switch_off_domain_reassignment();
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto builder = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!builder) {
    state_->failure = text_of(builder.takeError());
    return;
  }
  builder->setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  auto jit = llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(*builder).create();
  if (!jit) {
    state_->failure = text_of(jit.takeError());
    return;
  }
  for (int i = 0; i < kAtOnceMax; ++i) {
    auto machine = builder->createTargetMachine();
    if (!machine) {
      state_->failure = text_of(machine.takeError());
      return;
    }
    state_->machines.push_back(std::move(*machine));
  }
  state_->jit = std::move(*jit);
  define_runtime(state_->jit.get());
  const std::string build = own_build_id();
  if (!build.empty())
    state_->fingerprint = build + builder->getCPU() + builder->getFeatures().getString();
}

const std::string& Engine::fingerprint() const { return state_->fingerprint; }

namespace {

// From this many LLVM instructions on, compiling fast counts more than the code.
constexpr size_t kLargeModule = 12'000;
constexpr char kFewPasses[] = "function(sroa,early-cse<memssa>,simplifycfg,adce)";

void optimise(llvm::Module* module, llvm::TargetMachine* machine, bool large) {
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
  llvm::ModulePassManager passes;
  if (!large) {
    passes = builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O1);
  } else {
    llvm::cantFail(builder.parsePassPipeline(passes, kFewPasses));
  }
  passes.run(*module, modules);
}

// Machine code of the module as an object file; false when the target cannot write one.
bool write_object(llvm::Module* module, llvm::TargetMachine* machine, std::string* bytes) {
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  llvm::MCContext* context = nullptr;
  if (machine->addPassesToEmitMC(passes, context, stream)) return false;
  passes.run(*module);
  bytes->assign(buffer.begin(), buffer.end());
  return true;
}

}  // namespace

std::shared_ptr<Engine::Emitted> Engine::emit(const Kernel& kernel, const Variant& variant,
                                              const SymbolResolver& resolver, ObjectCode* code,
                                              Diagnostic* error) {
  if (!state_->failure.empty()) {
    *error = {0, 0, "no compiler for this processor: " + state_->failure};
    return nullptr;
  }
  auto emitted = std::make_shared<Emitted>();
  emitted->module = std::make_unique<llvm::Module>("kernel", emitted->context);
  emitted->module->setDataLayout(state_->jit->getDataLayout());
  emitted->module->setTargetTriple(state_->jit->getTargetTriple().str());
  Emitter emitter(kernel, variant, resolver, emitted->module.get());
  llvm::Function* function = emitter.run(kEntry, error);
  if (function == nullptr) return nullptr;
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyFunction(*function, &stream)) {
    *error = {0, 0, "internal: bad code for " + kernel.name + ": " + problem};
    return nullptr;
  }
  code->save_bytes = emitter.save_bytes();
  code->symbols = emitter.symbols();
  return emitted;
}

bool Engine::generate(Emitted* emitted, ObjectCode* code, std::string* problem) {
  std::unique_ptr<llvm::TargetMachine> machine = state_->take();
  const bool large = emitted->module->getInstructionCount() >= kLargeModule;
  machine->setOptLevel(large ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default);
  machine->setFastISel(large);
  optimise(emitted->module.get(), machine.get(), large);
  const bool written = write_object(emitted->module.get(), machine.get(), &code->bytes);
  state_->give_back(std::move(machine));
  if (!written) *problem = "no object files for this processor";
  return written;
}

// A library of its own for each kernel, so that it can be dropped alone.
Engine::Entry Engine::link(const ObjectCode& code, std::shared_ptr<void>* keep,
                           std::string* problem) {
  LLJIT* const jit = state_->jit.get();
  const std::string name = "kernel" + std::to_string(++state_->links);
  llvm::orc::JITDylib& own = jit->getExecutionSession().createBareJITDylib(name);
  own.addToLinkOrder(jit->getMainJITDylib());
  *keep = std::shared_ptr<void>(&own, [jit](void* held) {
    auto* const dropped = static_cast<llvm::orc::JITDylib*>(held);
    llvm::consumeError(jit->getExecutionSession().removeJITDylib(*dropped));
  });
  if (auto e = jit->addObjectFile(own, llvm::MemoryBuffer::getMemBufferCopy(code.bytes, name))) {
    *problem = text_of(std::move(e));
    return nullptr;
  }
  auto symbol = jit->lookup(own, kEntry);
  if (!symbol) {
    *problem = text_of(symbol.takeError());
    return nullptr;
  }
  return symbol->toPtr<Entry>();
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
