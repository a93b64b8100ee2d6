// The exported symbols, generated: each calls its function in vgpu::driver.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/calls/error_log.h"
#include "api/default_stream.h"
#include "driver_functions.h"
#include "shim/symbol_table.h"

#include "shim_entry.inc"

namespace vgpu::shim {

std::span<const cudart::SymbolRow> symbol_rows() {
  static const cudart::SymbolRow kRows[] = {
#include "shim_symbols.inc"
  };
  return kRows;
}

}  // namespace vgpu::shim
