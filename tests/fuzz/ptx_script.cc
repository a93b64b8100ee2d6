// Parser and passes on hostile text.
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/ptx_script.h"

#include <algorithm>

#include "softgpu/passes/kernel.h"
#include "softgpu/ptx/parser.h"
#include "tests/fuzz/require.h"

namespace vgpu::softgpu {
namespace {

using testing::require;

void check_place(std::string_view text, const Diagnostic& error) {
  require(!error.text.empty());
  require(error.line >= 1 && error.column >= 1);
  require(error.line <= std::count(text.begin(), text.end(), '\n') + 1);
}

}  // namespace

bool run_ptx_script(std::string_view text) {
  ptx::Module module;
  Diagnostic error;
  if (!ptx::parse_module(text, &module, &error)) {
    check_place(text, error);
    return false;
  }
  for (const ptx::Function& function : module.functions) {
    if (!function.is_kernel || function.is_declaration) continue;
    Kernel kernel;
    Diagnostic why;
    if (!build_kernel(module, function, &kernel, &why)) {
      check_place(text, why);
      continue;
    }
    for (const unsigned row : {0u, 8u, 16u, 32u}) {
      Kernel copy = kernel;
      analyse(&copy, {.row = row});
      find_affine(&copy, {.row = row});
    }
  }
  return true;
}

}  // namespace vgpu::softgpu
