// Optimises and links LLVM modules into the process. Only engine.cc and the emitter see LLVM.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "softgpu/passes/kernel.h"
#include "softgpu/program.h"

namespace vgpu::softgpu {

// One per process, never destroyed: threads may run its code until the very end.
class Engine {
 public:
  static Engine& instance();
  // Thread-safe. False and a diagnostic when something is not supported.
  bool compile(const Kernel& kernel, const Variant& variant, const SymbolResolver& resolver,
               CompiledKernel* out, Diagnostic* error);
  // Every instruction of `kernel` that compile() would refuse, without making code.
  std::vector<Diagnostic> refusals(const Kernel& kernel, const Variant& variant);

 private:
  Engine();
  struct State;
  State* state_;
};

}  // namespace vgpu::softgpu
