// The rows that cuGetProcAddress answers from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "api/cudart/proc_address.h"

namespace vgpu::softgpu {

std::span<const cudart::SymbolRow> symbol_rows();

}  // namespace vgpu::softgpu
