// Rows for cuGetProcAddress, from the generator.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_ROUTER_SYMBOL_TABLE_H_
#define VGPU_ROUTER_SYMBOL_TABLE_H_

#include <span>

#include "api/cudart/proc_address.h"

namespace vgpu::router {

std::span<const cudart::SymbolRow> symbol_rows();

}  // namespace vgpu::router

#endif  // VGPU_ROUTER_SYMBOL_TABLE_H_
