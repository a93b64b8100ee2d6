// cuInit, version, entry points and private tables; what libcudart's contract needs of the shim.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstdio>
#include <cstring>

#include "api/calls/kernels.h"
#include "api/cudart/export_table.h"
#include "api/cudart/host.h"
#include "base/log.h"
#include "driver_functions.h"
#include "shim/device.h"
#include "shim/driver_version.h"
#include "shim/process.h"
#include "shim/server_library.h"
#include "shim/symbol_table.h"

namespace vgpu::driver {

using shim::attribute;
using shim::Context;
using shim::current_context;
using shim::Process;
using shim::Session;
using shim::symbol_rows;

namespace {

CUresult host_current_context(CUcontext* out) {
  Context* context = current_context();
  *out = context == nullptr ? nullptr : context->handle();
  return CUDA_SUCCESS;
}

CUresult host_primary_context(CUcontext* out, CUdevice device) {
  Session* session = Process::session();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  Context* context = session->contexts().primary(device);
  if (context == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *out = context->handle();
  return CUDA_SUCCESS;
}

CUresult host_context_id(CUcontext handle, uint64_t* id) {
  Session* session = Process::session();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  Context* context = handle == nullptr ? current_context() : session->contexts().find(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *id = context->unique_id;
  return CUDA_SUCCESS;
}

int host_device_count() {
  Session* session = Process::session();
  return session == nullptr ? 0 : static_cast<int>(session->hello().devices.size());
}

CUresult host_device_identity(int ordinal, CUuuid* uuid, int* domain, int* bus, int* device) {
  Session* session = Process::session();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const protocol::DeviceSnapshot* snapshot = session->device(ordinal);
  if (snapshot == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::memcpy(uuid->bytes, snapshot->uuid.data(), sizeof(uuid->bytes));
  *domain = attribute(*snapshot, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  *bus = attribute(*snapshot, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  *device = attribute(*snapshot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  return CUDA_SUCCESS;
}

const cudart::Host kHost = {host_current_context, host_primary_context,    host_context_id,
                            shim::driver_version, host_device_count,       host_device_identity,
                            calls::each_kernel,   driver::cuModuleLoadData};

}  // namespace

CUresult cuInit(unsigned int flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  cudart::set_host(&kHost);
  return Process::initialize();
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = shim::driver_version();
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** address, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  return cudart::get_proc_address(symbol_rows(), symbol, address, version, flags, status);
}

CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  cudart::set_host(&kHost);
  if (const void* ours = shim::server_library_table(id); ours != nullptr && table != nullptr) {
    *table = ours;
    return CUDA_SUCCESS;
  }
  return cudart::get_export_table(table, id);
}

CUresult not_served(const char* name) {
  log_once(name, LogLevel::kWarn, "%s is not supported by this vGPU", name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace vgpu::driver
