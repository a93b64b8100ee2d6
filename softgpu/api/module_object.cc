// Loading code: variables into device memory, names into tables.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/module_object.h"

#include <algorithm>
#include <cstring>

#include "api/cudart/variables.h"
#include "base/log.h"
#include "softgpu/api/driver.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kCodeUnit = 16;  // distance of function pointers

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Module::Module(Context* context, std::shared_ptr<const Program> program)
    : context_(context), program_(std::move(program)), life_(context->life.load()) {}

Module::~Module() {
  // A context that ended meanwhile has freed the block already, and the address may be somebody
  // else's by now.
  if (storage_ != 0 && context_->alive() && context_->life.load() == life_) {
    context_->device().memory().free(storage_);
  }
}

CUresult Module::load(Context* context, std::shared_ptr<const Program> program,
                      std::shared_ptr<ManagedVariables> managed, std::shared_ptr<Module>* module,
                      std::string* reason) {
  std::shared_ptr<Module> made(new Module(context, std::move(program)));
  made->managed_ = std::move(managed);
  if (const CUresult placed = made->place_variables(reason); placed != CUDA_SUCCESS) return placed;
  Module* const self = made.get();
  // The resolver is used while prepare() runs, that is while the module lives.
  made->code_ = LoadedCode::load(made->program_,
                                 [self](std::string_view name) { return self->value_of(name); });
  if (made->code_ == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  made->make_functions();
  *module = std::move(made);
  return CUDA_SUCCESS;
}

CUresult Module::place_variables(std::string* reason) {
  uint64_t total = 0;
  std::vector<uint64_t> offsets;
  for (const GlobalVar& variable : program_->globals()) {
    total = round_up(total, std::max<uint64_t>(variable.align, cudart::kVariableAlignment));
    offsets.push_back(total);
    if (!variable.external && !variable.managed) total += std::max<uint64_t>(variable.bytes, 1);
  }
  const uint64_t code_at = round_up(total, kCodeUnit);
  total = code_at + kCodeUnit * program_->address_taken().size();
  Device& device = context_->device();
  if (total != 0) storage_ = context_->allocate(total, MemoryKind::kModule);
  if ((total != 0 && storage_ == 0) ||
      (managed_ == nullptr && !ManagedVariables::make(device, *program_, &managed_))) {
    *reason = "no device memory for the module's variables";
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  uint64_t code = storage_ + code_at;
  for (const std::string& name : program_->address_taken()) {
    code_addresses_[name] = code;
    code += kCodeUnit;
  }
  if (managed_ != nullptr) variables_ = managed_->all();
  const auto& globals = program_->globals();
  if (total != 0) std::memset(reinterpret_cast<void*>(storage_), 0, total);
  for (size_t i = 0; i < globals.size(); ++i) {
    if (globals[i].external || globals[i].managed) continue;
    const uint64_t address = storage_ + offsets[i];
    variables_[globals[i].name] = {address, globals[i].bytes};
    const size_t filled = std::min<uint64_t>(globals[i].init.size(), globals[i].bytes);
    std::memcpy(reinterpret_cast<void*>(address), globals[i].init.data(), filled);
  }
  return fill_variables(reason);
}

// Addresses in initialisers.
CUresult Module::fill_variables(std::string* reason) {
  for (const GlobalVar& global : program_->globals()) {
    for (const GlobalVar::Reloc& reloc : global.relocs) {
      const uint64_t target = value_of(reloc.symbol);
      if (target == 0 || global.external || reloc.offset + 8 > global.bytes) {
        *reason = "undefined symbol " + reloc.symbol;
        return CUDA_ERROR_INVALID_PTX;
      }
      const uint64_t word = target + static_cast<uint64_t>(reloc.addend);
      std::memcpy(reinterpret_cast<void*>(variables_[global.name].first + reloc.offset), &word,
                  sizeof(word));
    }
  }
  return CUDA_SUCCESS;
}

void Module::make_functions() {
  const auto& kernels = program_->kernels();
  for (uint32_t index = 0; index < kernels.size(); ++index) {
    auto function = std::make_shared<Function>();
    function->module = weak_from_this();
    function->index = index;
    function->info = &kernels[index];
    function->program = program_;
    function->settings = std::make_shared<FunctionSettings>();
    function->handle = Driver::instance().functions.insert(function);
    functions_.push_back(std::move(function));
    const auto value = code_addresses_.find(kernels[index].name);
    if (value != code_addresses_.end()) kernels_by_address_[value->second] = index;
  }
}

std::shared_ptr<Function> Module::function(std::string_view name) const {
  for (const auto& function : functions_) {
    if (function->info->name == name) return function;
  }
  return nullptr;
}

std::pair<uint64_t, uint64_t> Module::variable(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? std::pair<uint64_t, uint64_t>{0, 0} : found->second;
}

std::shared_ptr<CompiledKernel> Module::prepare(uint32_t index, const Dim3& block, bool clustered,
                                                Diagnostic* error) {
  return code_->prepare(index, block, error, clustered);
}

uint64_t Module::value_of(std::string_view name) const {
  const auto& aliases = program_->aliases();
  const auto alias = aliases.find(std::string(name));
  const std::string_view meant = alias == aliases.end() ? name : alias->second;
  const auto code = code_addresses_.find(meant);
  return code != code_addresses_.end() ? code->second : variable(meant).first;
}

void Module::unload() {
  Driver& driver = Driver::instance();
  for (const auto& function : functions_) driver.functions.remove(function->handle);
  if (handle != nullptr) driver.modules.remove(handle);
}

std::shared_ptr<Library> Library::make(std::shared_ptr<const Program> program) {
  auto library = std::make_shared<Library>();
  library->program_ = std::move(program);
  const auto& kernels = library->program_->kernels();
  for (uint32_t index = 0; index < kernels.size(); ++index) {
    auto kernel = std::make_shared<Kernel>();
    kernel->library = library;
    kernel->index = index;
    kernel->info = &kernels[index];
    kernel->program = library->program_;
    for (int device = 0; device < Driver::instance().device_count(); ++device)
      kernel->settings.push_back(std::make_shared<FunctionSettings>());
    kernel->handle = Driver::instance().kernels.insert(kernel);
    library->kernels_.push_back(std::move(kernel));
  }
  return library;
}

std::shared_ptr<Kernel> Library::kernel(std::string_view name) const {
  for (const auto& kernel : kernels_) {
    if (kernel->info->name == name) return kernel;
  }
  return nullptr;
}

CUresult Library::module_in(Context& context, std::shared_ptr<Module>* module) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<Module>& kept = modules_[{&context, context.life.load()}];
  if (kept == nullptr) {
    std::string reason;
    std::shared_ptr<Module> made;
    CUresult result = place_managed();
    if (result == CUDA_SUCCESS) result = Module::load(&context, program_, managed_, &made, &reason);
    if (result != CUDA_SUCCESS) {
      VGPU_LOG_ERROR("library: %s", reason.c_str());
      return result;
    }
    const auto device = static_cast<size_t>(context.device().config().ordinal);
    for (size_t i = 0; i < kernels_.size(); ++i)
      made->functions()[i]->settings = kernels_[i]->settings[device];
    made->of_library = true;
    made->handle = Driver::instance().modules.insert(made);
    context.add_module(made);
    kept = std::move(made);
  }
  *module = kept;
  return CUDA_SUCCESS;
}

// Under mutex_.
CUresult Library::place_managed() {
  if (managed_placed_) return CUDA_SUCCESS;
  if (!ManagedVariables::make(Driver::instance().device(), *program_, &managed_))
    return CUDA_ERROR_OUT_OF_MEMORY;
  managed_placed_ = true;
  return CUDA_SUCCESS;
}

CUresult Library::managed_variable(std::string_view name, uint64_t* address, uint64_t* bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (const CUresult placed = place_managed(); placed != CUDA_SUCCESS) return placed;
  const auto found =
      managed_ == nullptr ? std::pair<uint64_t, uint64_t>{0, 0} : managed_->variable(name);
  if (found.first == 0) return CUDA_ERROR_NOT_FOUND;
  *address = found.first;
  *bytes = found.second;
  return CUDA_SUCCESS;
}

void Library::forget_context(const Context& context) {
  std::vector<std::shared_ptr<Module>> gone;  // freed without the lock
  std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(modules_, [&](auto& each) {
    if (each.first.first != &context) return false;
    gone.push_back(std::move(each.second));
    return true;
  });
}

void Library::unload() {
  Driver& driver = Driver::instance();
  for (const auto& kernel : kernels_) driver.kernels.remove(kernel->handle);
  std::map<std::pair<Context*, uint32_t>, std::shared_ptr<Module>> modules;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    modules.swap(modules_);
  }
  for (auto& [where, module] : modules) {
    module->unload();
    module->context()->drop_module(module);
  }
}

std::shared_ptr<Function> find_function(Context& context, CUfunction handle) {
  std::shared_ptr<Function> function;
  return find_function(context, handle, &function) == CUDA_SUCCESS ? function : nullptr;
}

CUresult find_function(Context& context, CUfunction handle, std::shared_ptr<Function>* function) {
  Driver& driver = Driver::instance();
  *function = driver.functions.find(handle);
  if (*function != nullptr) return CUDA_SUCCESS;
  const std::shared_ptr<Kernel> kernel = driver.kernels.find(reinterpret_cast<CUkernel>(handle));
  const std::shared_ptr<Library> library = kernel == nullptr ? nullptr : kernel->library.lock();
  std::shared_ptr<Module> module;
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult loaded = library->module_in(context, &module);
  if (loaded == CUDA_SUCCESS) *function = module->functions()[kernel->index];
  return loaded;
}

}  // namespace vgpu::softgpu
