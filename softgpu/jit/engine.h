// Optimises LLVM modules, makes machine code of them, and links it into the process. Only engine.cc
// and the emitter see LLVM.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "softgpu/jit/code_cache.h"
#include "softgpu/passes/kernel.h"
#include "softgpu/program.h"

namespace vgpu::softgpu {

// One per process, never destroyed: threads may run its code until the very end. Thread-safe.
class Engine {
 public:
  static Engine& instance();
  // Every instruction of `kernel` that emit() would refuse, without making code.
  std::vector<Diagnostic> refusals(const Kernel& kernel, const Variant& variant);

  // A kernel as unoptimised LLVM code.
  struct Emitted;
  // Fast (some percent of what compiling takes) and finds all that is not supported: nullptr and a
  // diagnostic then. `code` gets everything but the bytes.
  std::shared_ptr<Emitted> emit(const Kernel& kernel, const Variant& variant,
                                const SymbolResolver& resolver, ObjectCode* code,
                                Diagnostic* error);
  // Slow: fills code->bytes. At most kAtOnceMax threads work here, others wait.
  bool generate(Emitted* emitted, ObjectCode* code, std::string* problem);
  // The code's entry, and in *keep what holds the code in memory. nullptr: *problem says why.
  using Entry = int (*)(WarpContext*);
  Entry link(const ObjectCode& code, std::shared_ptr<void>* keep, std::string* problem);
  // Names the processor whose code is made and the compiler's own build; "" when the latter is not
  // known, and then nothing may be kept for another process.
  const std::string& fingerprint() const;

  static constexpr int kAtOnceMax = 2;

 private:
  Engine();
  struct State;
  State* state_;
};

}  // namespace vgpu::softgpu
