// Parsed PTX modules and their compiled kernels.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/program.h"

#include <map>
#include <mutex>
#include <tuple>

#include "softgpu/jit/engine.h"
#include "softgpu/passes/kernel.h"
#include "softgpu/ptx/parser.h"

namespace vgpu::softgpu {
namespace {

KernelInfo info_of(const ptx::Module& module, const ptx::Function& f) {
  KernelInfo info;
  info.name = f.name;
  for (const ptx::Variable& p : f.params) {
    info.params.push_back({p.offset, static_cast<uint32_t>(p.bytes), p.align});
  }
  info.param_bytes = f.param_bytes;
  info.static_shared_bytes = shared_layout(module, f).bytes;
  info.local_bytes = (f.local_bytes + 15) / 16 * 16;
  // PTX has as many registers as it likes; a ptxas-like number for occupancy is a fraction of them,
  // within limits.
  const auto declared = static_cast<uint32_t>(f.registers.size());
  info.registers = declared / 4 < 16 ? 16 : declared / 4 > 255 ? 255 : declared / 4;
  for (int i = 0; i < 3; ++i) {
    info.max_threads[i] = f.max_threads[i];
    info.required_threads[i] = f.required_threads[i];
  }
  info.ptx_version = module.version;
  info.target_sm = module.target;
  return info;
}

}  // namespace

Program::Program() : module_(std::make_unique<ptx::Module>()) {}
Program::~Program() = default;

std::shared_ptr<const Program> Program::parse(std::string_view text, Diagnostic* error) {
  std::shared_ptr<Program> program(new Program);
  if (!ptx::parse_module(text, program->module_.get(), error)) return nullptr;
  for (const ptx::Function& f : program->module_->functions) {
    if (f.is_kernel && !f.is_declaration)
      program->kernels_.push_back(info_of(*program->module_, f));
  }
  program->globals_ = program->module_->globals;
  return program;
}

std::vector<Diagnostic> Program::refusals() const {
  std::vector<Diagnostic> all;
  for (const ptx::Function& f : module_->functions) {
    if (f.is_declaration) continue;
    Kernel kernel;
    Diagnostic error;
    if (!build_kernel(*module_, f, &kernel, &error)) {
      all.push_back(error);
      continue;
    }
    const Variant variant{true, 32};
    analyse(&kernel, variant);
    const std::vector<Diagnostic> list = Engine::instance().refusals(kernel, variant);
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

struct LoadedCode::State {
  std::shared_ptr<const Program> program;
  SymbolResolver resolver;
  std::mutex mutex;
  // By index, lanes and full_rows.
  std::map<std::tuple<uint32_t, unsigned, bool>, std::unique_ptr<CompiledKernel>> kernels;

  const CompiledKernel* compile(uint32_t index, const Variant& variant, Diagnostic* error);
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

const CompiledKernel* LoadedCode::compile(uint32_t kernel_index, const Dim3& block,
                                          Diagnostic* error) {
  return state_->compile(kernel_index, {block.x % 32 == 0, 32}, error);
}

const CompiledKernel* LoadedCode::compile_for_one_lane(uint32_t kernel_index, Diagnostic* error) {
  return state_->compile(kernel_index, {false, 1}, error);
}

const CompiledKernel* LoadedCode::State::compile(uint32_t index, const Variant& variant,
                                                 Diagnostic* error) {
  std::lock_guard lock(mutex);
  auto& slot = kernels[{index, variant.lanes, variant.full_rows}];
  if (slot != nullptr) return slot.get();
  const KernelInfo& info = program->kernels()[index];
  const ptx::Module& module = program->module();
  const ptx::Function& function = module.functions[module.function_index.at(info.name)];
  Kernel kernel;
  if (!build_kernel(module, function, &kernel, error)) return nullptr;
  analyse(&kernel, variant);
  auto compiled = std::make_unique<CompiledKernel>();
  if (!Engine::instance().compile(kernel, variant, resolver, compiled.get(), error)) return nullptr;
  compiled->name = info.name;
  compiled->shared_bytes = info.static_shared_bytes;
  compiled->local_bytes = (kernel.function.local_bytes + 15) / 16 * 16;
  compiled->param_bytes = info.param_bytes;
  slot = std::move(compiled);
  return slot.get();
}

}  // namespace vgpu::softgpu
