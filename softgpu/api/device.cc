// The device as the program sees it.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstdio>
#include <cstring>

#include "driver_functions.h"
#include "softgpu/api/attributes.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/identity.h"

namespace vgpu::driver {
namespace {

using softgpu::check_device;
using softgpu::Driver;

CUresult copy_text(const char* text, char* out, int length) {
  if (out == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(out, static_cast<size_t>(length), "%s", text);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDeviceGetCount(int* count) {
  const CUresult ready = Driver::instance().ready();
  if (ready != CUDA_SUCCESS) return ready;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = Driver::instance().device_count();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  const CUresult ready = Driver::instance().ready();
  if (ready != CUDA_SUCCESS) return ready;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (ordinal < 0 || ordinal >= Driver::instance().device_count()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  return copy_text(Driver::instance().device(device).config().name.c_str(), name, length);
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *uuid = softgpu::uuid_of(Driver::instance().device(device).config().identity);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetLuid(char*, unsigned int*, CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  return CUDA_ERROR_NOT_SUPPORTED;  // as native: a Windows notion
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = Driver::instance().device(device).config().memory_bytes;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  *value = softgpu::device_attribute(Driver::instance().device(device).config(), attribute);
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = Driver::instance().device(device).config().limits.major;
  *minor = Driver::instance().device(device).config().limits.minor;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  char id[32];
  std::snprintf(id, sizeof(id), "0000:%02X:00.0",
                softgpu::pci_bus_of(Driver::instance().device(device).config().identity));
  return copy_text(id, text, length);
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  const CUresult ready = Driver::instance().ready();
  if (ready != CUDA_SUCCESS) return ready;
  if (device == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  if (std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 &&
      std::sscanf(text, "%x:%x", &bus, &slot) != 2) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (int i = 0; domain == 0 && slot == 0 && i < Driver::instance().device_count(); ++i) {
    const int identity = Driver::instance().device(i).config().identity;
    if (bus != static_cast<unsigned>(softgpu::pci_bus_of(identity))) continue;
    *device = i;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto attribute = [device](CUdevice_attribute which) {
    return softgpu::device_attribute(Driver::instance().device(device).config(), which);
  };
  std::memset(properties, 0, sizeof(*properties));
  properties->maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  properties->maxThreadsDim[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  properties->maxThreadsDim[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  properties->maxThreadsDim[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  properties->maxGridSize[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  properties->maxGridSize[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  properties->maxGridSize[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  properties->sharedMemPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  properties->totalConstantMemory = attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  properties->SIMDWidth = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  properties->memPitch = attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  properties->regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  properties->clockRate = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  properties->textureAlign = attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  if (const CUresult result = check_device(peer); result != CUDA_SUCCESS) return result;
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = device != peer ? 1 : 0;  // all memory is the process's own
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute which, CUdevice source,
                                 CUdevice destination) {
  if (const CUresult result = check_device(source); result != CUDA_SUCCESS) return result;
  if (const CUresult result = check_device(destination); result != CUDA_SUCCESS) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (source == destination) return CUDA_ERROR_INVALID_DEVICE;  // as natively
  switch (which) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuDeviceGetExecAffinitySupport(int* value, CUexecAffinityType type, CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  if (value == nullptr || type >= CU_EXEC_AFFINITY_TYPE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* width, CUarray_format format, unsigned channels,
                                            CUdevice device) {
  // The architecture's limit for textures on linear memory, whatever the texel.
  constexpr size_t kTexelsMax = size_t{1} << 28;
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  const bool channels_valid = channels == 1 || channels == 2 || channels == 4;
  if (width == nullptr || !channels_valid || format < CU_AD_FORMAT_UNSIGNED_INT8) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *width = kTexelsMax;
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
