// Modules, libraries, and the functions and kernels in them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "softgpu/exec/device.h"
#include "softgpu/exec/kernel_host.h"
#include "softgpu/program.h"

namespace vgpu::softgpu {

class Context;
class Module;
class Library;

// What cuFuncSetAttribute and cuKernelSetAttribute change; a library's kernel shares it with its
// functions in every context of a device.
struct FunctionSettings {
  std::atomic<int> dynamic_shared_max{-1};  // bytes; -1 = not set: 48 KiB less the static part
  std::atomic<int> carveout{-1};
  std::atomic<int> cluster[3] = {0, 0, 0};  // required, where the kernel's text names none
  std::atomic<bool> non_portable_cluster{false};
  std::atomic<int> cluster_policy{CU_CLUSTER_SCHEDULING_POLICY_DEFAULT};
};

struct Function {
  std::weak_ptr<Module> module;
  uint32_t index = 0;
  const KernelInfo* info = nullptr;  // lives as long as the module's program, which `program` keeps
  std::shared_ptr<const Program> program;
  std::shared_ptr<FunctionSettings> settings;
  CUfunction handle = nullptr;
};

// The managed variables of an image, in pages that host and device share. Of no context: a
// library's are the same in all.
class ManagedVariables {
 public:
  // False when there is no memory; *out stays null when the image has none.
  static bool make(Device& device, const Program& program, std::shared_ptr<ManagedVariables>* out);
  ~ManagedVariables();
  ManagedVariables(const ManagedVariables&) = delete;
  ManagedVariables& operator=(const ManagedVariables&) = delete;

  // Address and size of a variable; {0, 0} when there is none.
  std::pair<uint64_t, uint64_t> variable(std::string_view name) const;
  const auto& all() const { return variables_; }

 private:
  ManagedVariables(Device& device, uint64_t address) : device_(device), address_(address) {}

  Device& device_;
  const uint64_t address_;
  std::map<std::string, std::pair<uint64_t, uint64_t>, std::less<>> variables_;
};

// One image in one context: code, and variables in device memory.
class Module : public KernelHost, public std::enable_shared_from_this<Module> {
 public:
  // Allocates and fills the variables. `reason` receives one line when it fails. `managed`: of the
  // library that it belongs to, else made.
  static CUresult load(Context* context, std::shared_ptr<const Program> program,
                       std::shared_ptr<ManagedVariables> managed, std::shared_ptr<Module>* module,
                       std::string* reason);
  ~Module() override;

  std::shared_ptr<Function> function(std::string_view name) const;
  const std::vector<std::shared_ptr<Function>>& functions() const { return functions_; }
  // Address and size of a variable; {0, 0} when there is none.
  std::pair<uint64_t, uint64_t> variable(std::string_view name) const;
  // May not be ready yet.
  std::shared_ptr<CompiledKernel> prepare(uint32_t index, const Dim3& block, bool clustered,
                                          Diagnostic* error);
  // Makes its handles invalid. Code and variables stay until the last grid that uses them is done.
  void unload();

  CnpError make_child(Grid& parent, uint64_t function, const ChildShape& shape,
                      std::unique_ptr<Command>* command) override;
  CnpError function_attribute(uint64_t function, uint32_t attribute, int* value) override;
  CnpError resident_blocks(uint64_t function, int threads, uint64_t shared_bytes,
                           int* blocks) override;
  CnpError limit(uint32_t which, uint64_t* value) override;
  uint32_t pending_launches_max() override;
  CnpError device_attribute(uint32_t attribute, int device, int* value) override;
  int device_count() override;
  int device() override;
  int cache_config() override;
  int shared_config() override;

  Context* context() const { return context_; }
  CUmodule handle = nullptr;
  bool of_library = false;  // ends with its library only

 private:
  Module(Context* context, std::shared_ptr<const Program> program);
  CUresult place_variables(std::string* reason);
  CUresult fill_variables(std::string* reason);
  // What a name stands for in code and initialisers: a variable's address, or a function's value.
  uint64_t value_of(std::string_view name) const;
  void make_functions();

  Context* const context_;
  const std::shared_ptr<const Program> program_;
  std::unique_ptr<LoadedCode> code_;
  std::vector<std::shared_ptr<Function>> functions_;
  std::map<std::string, std::pair<uint64_t, uint64_t>, std::less<>> variables_;
  // Function pointers are addresses of places behind the variables that hold nothing.
  std::map<std::string, uint64_t, std::less<>> code_addresses_;
  std::unordered_map<uint64_t, uint32_t> kernels_by_address_;  // those whose value is used
  uint64_t storage_ = 0;  // one block holds all variables but the managed ones
  std::shared_ptr<ManagedVariables> managed_;
  uint32_t life_ = 0;  // of the context
};

struct Kernel {
  std::weak_ptr<Library> library;
  uint32_t index = 0;
  const KernelInfo* info = nullptr;
  std::shared_ptr<const Program> program;
  std::vector<std::shared_ptr<FunctionSettings>> settings;  // by device
  CUkernel handle = nullptr;
};

// An image for whatever context asks: each gets its own Module at first use. Thread-safe.
class Library : public std::enable_shared_from_this<Library> {
 public:
  static std::shared_ptr<Library> make(std::shared_ptr<const Program> program);

  std::shared_ptr<Kernel> kernel(std::string_view name) const;
  const std::vector<std::shared_ptr<Kernel>>& kernels() const { return kernels_; }
  CUresult module_in(Context& context, std::shared_ptr<Module>* module);
  // As cuLibraryGetManaged: needs no context.
  CUresult managed_variable(std::string_view name, uint64_t* address, uint64_t* bytes);
  // The context ends, and its modules with it.
  void forget_context(const Context& context);
  void unload();

  CUlibrary handle = nullptr;

 private:
  CUresult place_managed();

  std::shared_ptr<const Program> program_;
  std::vector<std::shared_ptr<Kernel>> kernels_;
  std::mutex mutex_;
  std::shared_ptr<ManagedVariables> managed_;  // once asked for
  bool managed_placed_ = false;
  std::map<std::pair<Context*, uint32_t>, std::shared_ptr<Module>>
      modules_;  // by context and its life
};

// Options of a load that ask for text back, copied from the caller's arrays.
struct JitLog {
  char* error = nullptr;
  size_t error_bytes = 0;
  void** error_filled = nullptr;
  char* info = nullptr;
  size_t info_bytes = 0;
  void** info_filled = nullptr;
  static JitLog from_options(unsigned count, const CUjit_option* options, void** values);
  void write(const std::string& text) const;
};

// "ptx input, line 3, column 7; error   : …"
std::string text_of(const Diagnostic& diagnostic);

// Finds the PTX for our capability in an image and parses it. Errors as cuModuleLoadData documents
// them.
CUresult parse_program(const void* image, const JitLog& log,
                       std::shared_ptr<const Program>* program);

// A CUfunction, or a CUkernel passed as one, in `context`. nullptr when it is neither.
std::shared_ptr<Function> find_function(Context& context, CUfunction handle);
// The same, with the reason: a library's variables may not fit where it was not used yet.
CUresult find_function(Context& context, CUfunction handle, std::shared_ptr<Function>* function);

}  // namespace vgpu::softgpu
