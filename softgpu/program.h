// Parsed PTX modules and their compiled kernels: the face of the compiler. No LLVM in here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "softgpu/exec/profile_counters.h"

namespace vgpu::softgpu {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

// Why PTX was refused, and where (1-based; 0 = no place).
struct Diagnostic {
  int line = 0, column = 0;
  std::string text;
};

struct ParamInfo {
  uint32_t offset, bytes, align;
};

// A variable of module scope in .global or .const.
struct GlobalVar {
  struct Reloc {  // an 8-byte word that holds the address of a symbol
    uint64_t offset;
    std::string symbol;
    int64_t addend;
  };
  std::string name;
  uint64_t bytes = 0;
  uint32_t align = 1;
  bool constant = false;
  bool external = false;  // declared with .extern: defined elsewhere
  bool managed = false;
  std::vector<uint8_t> init;  // empty = zeros; may be shorter than `bytes`
  std::vector<Reloc> relocs;
};

struct KernelInfo {
  std::string name;
  std::vector<ParamInfo> params;
  uint32_t param_bytes = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t local_bytes = 0;           // per thread
  uint32_t registers = 0;             // an estimate, for occupancy
  uint32_t max_threads[3] = {};       // .maxntid; zeros = none
  uint32_t required_threads[3] = {};  // .reqntid
  uint32_t required_cluster[3] = {};  // .reqnctapercluster, in blocks; zeros = none
  bool explicit_cluster = false;      // .explicitcluster: only launched with clusters
  uint32_t max_cluster_blocks = 0;    // .maxclusterrank; 0 = none
  int ptx_version = 0;                // 90 = ISA 9.0
  int target_sm = 0;                  // 75
};

namespace ptx {
struct Module;
}

// PTX text, parsed. Immutable and usable from any thread once made.
class Program {
 public:
  // nullptr and a diagnostic when the text is no PTX that we know.
  static std::shared_ptr<const Program> parse(std::string_view text, Diagnostic* error);
  // Several texts as one program, as the driver's linker makes it. nullptr and a diagnostic for
  // what is defined twice or nowhere.
  static std::shared_ptr<const Program> link(const std::vector<std::string_view>& texts,
                                             Diagnostic* error);
  ~Program();

  const std::vector<KernelInfo>& kernels() const { return kernels_; }
  const std::vector<GlobalVar>& globals() const { return globals_; }
  // Digest of all text that the code of a kernel may depend on: its own, functions, variables.
  const std::string& digest(uint32_t kernel_index) const { return digests_[kernel_index]; }
  // Names that stand for other functions.
  const std::map<std::string, std::string>& aliases() const;
  // Functions whose address is a value somewhere; the resolver must know them.
  const std::vector<std::string>& address_taken() const { return address_taken_; }
  const ptx::Module& module() const { return *module_; }
  // What the code generator does not support in any kernel: for people who port programs.
  std::vector<Diagnostic> refusals() const;

 private:
  Program();
  bool describe(Diagnostic* error);  // false: some kernel is larger than kernels may be
  std::unique_ptr<ptx::Module> module_;
  std::vector<KernelInfo> kernels_;
  std::vector<std::string> digests_;
  std::vector<GlobalVar> globals_;
  std::vector<std::string> address_taken_;
};

// Something that happens once, on some thread. Thread-safe.
class Readiness {
 public:
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  void wait();
  // Runs `body` when it happens: at once when it has.
  void then(std::function<void()> body);
  void set();

 private:
  std::atomic<bool> ready_{false};  // release by set()
  std::mutex mutex_;
  std::condition_variable happened_;
  std::vector<std::function<void()>> bodies_;
};

// One kernel as machine code. `entry` runs one warp until it ends, waits or yields
// (exec/warp_context.h).
struct WarpContext;
struct CompiledKernel {
  Readiness readiness;  // `entry`, `save_bytes` and `keep` are there once it is set
  int (*entry)(WarpContext*) = nullptr;
  std::shared_ptr<void> keep;     // the code in memory
  std::vector<uint64_t> symbols;  // addresses that the code reads through the warp's context
  std::vector<BlockMix> mix;      // of instrumented kernels only
  std::string name;
  uint32_t save_bytes = 0;     // room that a suspended warp needs
  uint32_t shared_bytes = 0;   // static part
  uint32_t local_bytes = 0;    // per thread
  uint32_t stack_bytes = 0;    // per thread, for calls whose depth is known
  bool stack_dynamic = false;  // recursion or alloca: the context's stack limit on top
};

// Address of a module-scope variable, or the value that stands for a function, by name; 0 = not
// found.
using SymbolResolver = std::function<uint64_t(std::string_view)>;

// The code of one loaded module. compile() may be called from any thread; each variant is compiled
// once.
class LoadedCode {
 public:
  static std::unique_ptr<LoadedCode> load(std::shared_ptr<const Program> program,
                                          SymbolResolver resolver);
  ~LoadedCode();
  // The kernel for blocks of this shape, or nullptr and a diagnostic when an instruction is not
  // supported. Code that this process does not have comes from the disk, or is made by another
  // thread: not before the kernel is ready may it run.
  // `clustered`: for launches with clusters, and for no others.
  std::shared_ptr<CompiledKernel> prepare(uint32_t kernel_index, const Dim3& block,
                                          Diagnostic* error, bool clustered = false);
  // The same, ready; takes milliseconds the first time.
  const CompiledKernel* compile(uint32_t kernel_index, const Dim3& block, Diagnostic* error,
                                bool clustered = false);
  // The same kernel for threads run one by one, each with a WarpContext of its own: the second
  // opinion that tests compare with. No operations across the warp.
  const CompiledKernel* compile_for_one_lane(uint32_t kernel_index, Diagnostic* error);

 private:
  LoadedCode();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vgpu::softgpu
