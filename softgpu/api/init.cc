// cuInit, version, entry points and private tables.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/cudart/export_table.h"
#include "api/cudart/proc_address.h"
#include "base/log.h"
#include "driver_functions.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/metering.h"
#include "softgpu/api/symbol_table.h"

namespace vgpu::driver {

CUresult cuInit(unsigned int flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return softgpu::Driver::instance().initialise();
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = softgpu::kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** address, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  return cudart::get_proc_address(softgpu::symbol_rows(), symbol, address, version, flags, status);
}

CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  softgpu::Driver::instance();  // the tables reach the driver through the host that this sets
  if (table != nullptr && id != nullptr) {
    if (const SoftMeterTable* const meter = softgpu::meter_table(*id); meter != nullptr) {
      *table = meter;
      return CUDA_SUCCESS;
    }
  }
  return cudart::get_export_table(table, id);
}

CUresult not_served(const char* name) {
  log_once(name, LogLevel::kWarn, "%s is not supported by the software GPU", name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace vgpu::driver
