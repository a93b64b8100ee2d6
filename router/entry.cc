// The exported symbols, generated: each calls its function in vgpu::driver, which is generated too
// where its arguments say where it goes.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/calls/error_log.h"
#include "api/default_stream.h"
#include "driver_functions.h"
#include "router/place.h"
#include "router/symbol_table.h"

#include "shim_entry.inc"

namespace vgpu::driver {
#include "router_dispatch.inc"
}  // namespace vgpu::driver

namespace vgpu::router {

std::span<const cudart::SymbolRow> symbol_rows() {
  static const cudart::SymbolRow kRows[] = {
#include "shim_symbols.inc"
  };
  return kRows;
}

}  // namespace vgpu::router
