// Functions that compiled kernels call, by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace vgpu::softgpu {

struct RuntimeSymbol {
  const char* name;
  void* address;
};

std::span<const RuntimeSymbol> runtime_memory_symbols();
std::span<const RuntimeSymbol> runtime_warp_symbols();
std::span<const RuntimeSymbol> runtime_service_symbols();

}  // namespace vgpu::softgpu
