// Code as nvcc embeds it in a program: a fat binary in memory, and the calls that its constructors
// make.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/support/image_builder.h"
#include "tests/versions/runtime_api.h"

namespace vgpu_versions {

// Stand-ins for the host stubs and the shadow variable of a translation unit: only their addresses
// matter.
extern char scale_stub;   // scale(float* data, float factor, uint32_t n): data *= factor + bias
extern char offset_stub;  // add_index(uint32_t* out, uint32_t n): out[i] += i
extern float bias_shadow;

// Registers both kernels and the variable `bias` with a runtime, as a static constructor does, and
// unregisters them at its end.
class RegisteredCode {
 public:
  explicit RegisteredCode(const RuntimeApi& api);
  ~RegisteredCode();
  RegisteredCode(const RegisteredCode&) = delete;
  RegisteredCode& operator=(const RegisteredCode&) = delete;

 private:
  const RuntimeApi& api_;
  std::string container_;
  vgpu::cudart::test::WrapperBytes wrapper_;
  void** handle_;
};

}  // namespace vgpu_versions
