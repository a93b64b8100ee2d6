// Compiled kernels of one loaded module: from this process, from the disk, or made now.
// SPDX-License-Identifier: Apache-2.0
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>
#include <map>
#include <mutex>

#include "base/log.h"
#include "softgpu/exec/device_config.h"
#include "softgpu/exec/warp_context.h"
#include "softgpu/jit/code_cache.h"
#include "softgpu/jit/compile_queue.h"
#include "softgpu/jit/engine.h"
#include "softgpu/passes/kernel.h"
#include "softgpu/program.h"

namespace vgpu::softgpu {

void Readiness::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  happened_.wait(lock, [this] { return ready(); });
}

void Readiness::then(std::function<void()> body) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!ready()) return bodies_.push_back(std::move(body));
  }
  body();
}

void Readiness::set() {
  std::vector<std::function<void()>> bodies;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ready_.store(true, std::memory_order_release);
    bodies.swap(bodies_);
    happened_.notify_all();
  }
  for (const auto& body : bodies) body();
}

namespace {

// The most promising variant that is right for blocks of this shape.
Variant variant_for(const Dim3& block, bool clustered) {
  Variant variant;
  variant.clustered = clustered;
  for (unsigned row : {8u, 16u, 32u}) {
    if (block.x % row == 0) variant.row = row;
  }
  variant.strict = strict_mode();
  variant.profile = !profile_path().empty();
  return variant;
}

// 32 hexadecimal digits, also the file's name in the cache. Empty: not to be kept.
std::string key_of(const Program& program, uint32_t index, const Variant& variant) {
  const std::string& machine = Engine::instance().fingerprint();
  if (machine.empty() || variant.profile) return "";  // the mix of instructions is not in the file
  const std::string all = machine + '\0' + variant.text() + '\0' + program.digest(index);
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  char key[33];
  std::snprintf(key, sizeof key, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return key;
}

// What runs in place of a kernel that the code generator could not finish.
int cannot_run(WarpContext*) { return kWarpTrapped; }

void finish(const std::shared_ptr<CompiledKernel>& kernel, const ObjectCode& code) {
  std::string problem;
  kernel->entry = Engine::instance().link(code, &kernel->keep, &problem);
  if (kernel->entry == nullptr) {
    VGPU_LOG_ERROR("kernel %s cannot be linked: %s", kernel->name.c_str(), problem.c_str());
    kernel->entry = cannot_run;
  }
  kernel->readiness.set();
}

}  // namespace

struct LoadedCode::State {
  std::shared_ptr<const Program> program;
  SymbolResolver resolver;
  std::mutex mutex;
  std::map<std::pair<uint32_t, std::string>, std::shared_ptr<CompiledKernel>> kernels;

  std::shared_ptr<CompiledKernel> prepare(uint32_t index, const Variant& variant,
                                          Diagnostic* error);
  bool from_disk(const std::string& key, CompiledKernel* kernel, ObjectCode* code) const;
  bool make(const Variant& variant, const std::string& key,
            const std::shared_ptr<CompiledKernel>& kernel, Diagnostic* error) const;
  bool place(const ObjectCode& code, CompiledKernel* kernel) const;
};

LoadedCode::LoadedCode() : state_(std::make_unique<State>()) {}
LoadedCode::~LoadedCode() = default;

std::unique_ptr<LoadedCode> LoadedCode::load(std::shared_ptr<const Program> program,
                                             SymbolResolver resolver) {
  std::unique_ptr<LoadedCode> code(new LoadedCode);
  code->state_->program = std::move(program);
  code->state_->resolver = std::move(resolver);
  return code;
}

std::shared_ptr<CompiledKernel> LoadedCode::prepare(uint32_t kernel_index, const Dim3& block,
                                                    Diagnostic* error, bool clustered) {
  return state_->prepare(kernel_index, variant_for(block, clustered), error);
}

const CompiledKernel* LoadedCode::compile(uint32_t kernel_index, const Dim3& block,
                                          Diagnostic* error, bool clustered) {
  const std::shared_ptr<CompiledKernel> kernel = prepare(kernel_index, block, error, clustered);
  if (kernel != nullptr) kernel->readiness.wait();
  return kernel.get();
}

const CompiledKernel* LoadedCode::compile_for_one_lane(uint32_t kernel_index, Diagnostic* error) {
  Variant variant;
  variant.lanes = 1;
  const std::shared_ptr<CompiledKernel> kernel = state_->prepare(kernel_index, variant, error);
  if (kernel != nullptr) kernel->readiness.wait();
  return kernel.get();
}

std::shared_ptr<CompiledKernel> LoadedCode::State::prepare(uint32_t index, const Variant& variant,
                                                           Diagnostic* error) {
  std::lock_guard lock(mutex);
  auto& slot = kernels[{index, variant.text()}];
  if (slot != nullptr) return slot;
  auto kernel = std::make_shared<CompiledKernel>();
  kernel->name = program->kernels()[index].name;
  const std::string key = key_of(*program, index, variant);
  ObjectCode code;
  if (!key.empty() && from_disk(key, kernel.get(), &code)) {
    finish(kernel, code);
  } else if (!make(variant, key, kernel, error)) {
    return nullptr;
  }
  slot = kernel;
  return kernel;
}

// The addresses and sizes that belong to the code. False when a symbol has no address.
bool LoadedCode::State::place(const ObjectCode& code, CompiledKernel* kernel) const {
  kernel->symbols.clear();
  for (const std::string& name : code.symbols) {
    kernel->symbols.push_back(resolver ? resolver(name) : 0);
    if (kernel->symbols.back() == 0) return false;
  }
  kernel->save_bytes = code.save_bytes;
  kernel->local_bytes = code.local_bytes;
  kernel->shared_bytes = code.shared_bytes;
  kernel->stack_bytes = code.stack_bytes;
  kernel->stack_dynamic = code.stack_dynamic;
  return true;
}

bool LoadedCode::State::from_disk(const std::string& key, CompiledKernel* kernel,
                                  ObjectCode* code) const {
  return CodeCache::instance().find(key, code) && place(*code, kernel);
}

// Emits here, where a diagnostic can still be returned; all the rest is for another thread.
bool LoadedCode::State::make(const Variant& variant, const std::string& key,
                             const std::shared_ptr<CompiledKernel>& kernel,
                             Diagnostic* error) const {
  const ptx::Module& module = program->module();
  const ptx::Function& function = module.functions[module.function_index.at(kernel->name)];
  Kernel built;
  if (!build_kernel(module, function, &built, error)) return false;
  analyse(&built, variant);
  auto code = std::make_shared<ObjectCode>();
  const std::shared_ptr<Engine::Emitted> emitted =
      Engine::instance().emit(built, variant, resolver, code.get(), error);
  if (emitted == nullptr) return false;
  if (variant.profile) kernel->mix = instruction_mix(built);
  code->local_bytes = built.function.local_slice();
  code->shared_bytes = built.shared.bytes;
  code->stack_bytes = built.stack_bytes;
  code->stack_dynamic = built.stack_dynamic;
  if (!place(*code, kernel.get())) {
    *error = {0, 0, "a variable that kernel '" + kernel->name + "' uses has no address"};
    return false;
  }
  CompileQueue::instance().add([kernel, emitted, code, key](bool may_compile) {
    std::string problem = "the process ends";
    if (!may_compile || !Engine::instance().generate(emitted.get(), code.get(), &problem)) {
      VGPU_LOG_ERROR("kernel %s cannot be compiled: %s", kernel->name.c_str(), problem.c_str());
      kernel->entry = cannot_run;
      kernel->readiness.set();
      return;
    }
    finish(kernel, *code);
    if (!key.empty()) CodeCache::instance().store(key, *code);
  });
  return true;
}

}  // namespace vgpu::softgpu
