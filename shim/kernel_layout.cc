// Reading a module's layout as the worker describes it.
// SPDX-License-Identifier: Apache-2.0
#include "shim/kernel_layout.h"

#include <algorithm>

#include "module_layout_generated.h"

namespace vgpu::shim {
namespace {

constexpr uint32_t kParamBytesMax = 32 * 1024;  // more than any kernel may have

bool read_kernel(const protocol::fb::KernelLayout& from, Kernel* kernel) {
  if (from.name() != nullptr) kernel->name = from.name()->str();
  if (from.params() != nullptr) {
    for (const protocol::fb::KernelParam* param : *from.params()) {
      if (param->offset() > kParamBytesMax || param->bytes() > kParamBytesMax) return false;
      kernel->params.push_back({param->offset(), param->bytes()});
      kernel->param_bytes = std::max(kernel->param_bytes, param->offset() + param->bytes());
    }
  }
  if (from.attributes() != nullptr) {
    kernel->attributes.assign(from.attributes()->begin(), from.attributes()->end());
  }
  return kernel->param_bytes <= kParamBytesMax;
}

}  // namespace

bool read_layout(std::span<const uint8_t> bytes, Module* module) {
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), 64, 10'000'000);
  if (!protocol::fb::VerifyModuleLayoutBuffer(verifier)) return false;
  const auto* layout = protocol::fb::GetModuleLayout(bytes.data());
  if (layout->kernels() == nullptr) return true;
  module->kernels.resize(layout->kernels()->size());
  for (uint32_t i = 0; i < module->kernels.size(); ++i) {
    if (!read_kernel(*layout->kernels()->Get(i), &module->kernels[i])) return false;
    module->index.emplace(module->kernels[i].name, i);
  }
  return true;
}

}  // namespace vgpu::shim
