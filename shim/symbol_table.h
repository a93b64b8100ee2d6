// The rows that cuGetProcAddress answers from.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_SYMBOL_TABLE_H_
#define VGPU_SHIM_SYMBOL_TABLE_H_

#include <span>

#include "api/cudart/proc_address.h"

namespace vgpu::shim {

std::span<const cudart::SymbolRow> symbol_rows();

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_SYMBOL_TABLE_H_
