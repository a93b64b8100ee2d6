// cuInit, version, entry points and private tables: libcudart's contract with the router.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>

#include "api/calls/kernels.h"
#include "api/cudart/export_table.h"
#include "api/cudart/host.h"
#include "base/log.h"
#include "driver_functions.h"
#include "router/place.h"
#include "router/symbol_table.h"

namespace vgpu::driver {

using router::DevicePlace;
using router::Server;
using router::Servers;

namespace {

CUresult host_current_context(CUcontext* out) {
  *out = router::current_context();
  return CUDA_SUCCESS;
}

CUresult host_primary_context(CUcontext* out, CUdevice device) {
  Servers* servers = Servers::attached();
  if (servers == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const DevicePlace* place = servers->device(device);
  return place == nullptr ? CUDA_ERROR_INVALID_DEVICE
                          : place->server->library->primary_context(out, place->local);
}

CUresult host_context_id(CUcontext handle, uint64_t* id) {
  unsigned long long found = 0;
  const CUresult result = driver::cuCtxGetId(handle, &found);
  *id = found;
  return result;
}

// No server may be older than what is said of all.
int version_of_all() {
  Servers* servers = Servers::loaded();
  int lowest = servers == nullptr ? CUDA_VERSION : 0;
  if (servers == nullptr) return lowest;
  for (Server& server : servers->all()) {
    int version = 0;
    if (server.driver.cuDriverGetVersion(&version) != CUDA_SUCCESS) continue;
    lowest = lowest == 0 ? version : std::min(lowest, version);
  }
  return lowest;
}

int host_device_count() {
  Servers* servers = Servers::attached();
  return servers == nullptr ? 0 : static_cast<int>(servers->devices().size());
}

CUresult host_device_identity(int ordinal, CUuuid* uuid, int* domain, int* bus, int* device) {
  CUresult result = driver::cuDeviceGetUuid_v2(uuid, ordinal);
  const auto get = [&](int* value, CUdevice_attribute which) {
    if (result == CUDA_SUCCESS) result = driver::cuDeviceGetAttribute(value, which, ordinal);
  };
  get(domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  get(bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  get(device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  return result;
}

const cudart::Host kHost = {host_current_context, host_primary_context,    host_context_id,
                            version_of_all,       host_device_count,       host_device_identity,
                            calls::each_kernel,   driver::cuModuleLoadData};

}  // namespace

CUresult cuInit(unsigned int flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  cudart::set_host(&kHost);
  return Servers::attach();
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = version_of_all();
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** address, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  return cudart::get_proc_address(router::symbol_rows(), symbol, address, version, flags, status);
}

CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  cudart::set_host(&kHost);
  return cudart::get_export_table(table, id);
}

CUresult not_served(const char* name) {
  log_once(name, LogLevel::kWarn, "%s is not supported by a guest of several servers", name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace vgpu::driver
