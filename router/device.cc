// Devices: what is said of them that only all servers together know.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstdio>
#include <cstring>

#include "driver_functions.h"
#include "router/place.h"

namespace vgpu::driver {

using router::by_device;
using router::Place;
using router::Servers;

namespace {

// Both devices, and whether one server has both.
struct Pair {
  Place first, second;
  CUresult result() const { return first.result != CUDA_SUCCESS ? first.result : second.result; }
  bool together() const { return first.server == second.server; }
};

Pair both(CUdevice first, CUdevice second) { return {by_device(first), by_device(second)}; }

// Memory that all devices have at one address.
bool needs_one_server(CUdevice_attribute which) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      return true;
    default:
      return false;
  }
}

}  // namespace

CUresult cuDeviceGetCount(int* count) {
  const Servers* servers = Servers::attached();
  if (servers == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(servers->devices().size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* out, int ordinal) {
  if (const Place at = by_device(ordinal); at.result != CUDA_SUCCESS) return at.result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  const Place at = by_device(device);
  if (at.result != CUDA_SUCCESS) return at.result;
  const CUresult result = at->cuDeviceGetAttribute(value, which, at.local(device));
  if (result != CUDA_SUCCESS) return result;
  if (which == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) *value += Servers::domain_of(*at.server);
  if (needs_one_server(which)) *value = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int bytes, CUdevice device) {
  const Place at = by_device(device);
  if (at.result != CUDA_SUCCESS) return at.result;
  if (text == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  char whole[64] = {};
  if (CUresult r = at->cuDeviceGetPCIBusId(whole, sizeof(whole), at.local(device));
      r != CUDA_SUCCESS)
    return r;
  unsigned domain = 0;
  const char* rest = std::strchr(whole, ':');
  if (rest == nullptr || std::sscanf(whole, "%x", &domain) != 1) return CUDA_ERROR_UNKNOWN;
  domain += static_cast<unsigned>(Servers::domain_of(*at.server));
  std::snprintf(text, static_cast<size_t>(bytes), "%04X%s", domain, rest);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* out, const char* text) {
  const Servers* servers = Servers::attached();
  if (servers == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (out == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned wanted[3] = {};
  if (std::sscanf(text, "%x:%x:%x", &wanted[0], &wanted[1], &wanted[2]) != 3) {
    wanted[0] = 0;
    if (std::sscanf(text, "%x:%x", &wanted[1], &wanted[2]) != 2) return CUDA_ERROR_INVALID_VALUE;
  }
  constexpr CUdevice_attribute kParts[] = {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
                                           CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                                           CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID};
  for (CUdevice device = 0; device < static_cast<int>(servers->devices().size()); ++device) {
    int same = 0;
    for (int i = 0; i < 3; ++i) {
      int value = -1;
      if (CUresult r = driver::cuDeviceGetAttribute(&value, kParts[i], device); r != CUDA_SUCCESS)
        return r;
      same += value == static_cast<int>(wanted[i]) ? 1 : 0;
    }
    if (same != 3) continue;
    *out = device;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

// Kernels of one server's device never reach another server's memory.
CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  const Pair pair = both(device, peer);
  if (pair.result() != CUDA_SUCCESS) return pair.result();
  if (pair.together())
    return pair.first->cuDeviceCanAccessPeer(can, pair.first.local(device), pair.first.local(peer));
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute which, CUdevice from,
                                 CUdevice to) {
  const Pair pair = both(from, to);
  if (pair.result() != CUDA_SUCCESS) return pair.result();
  if (pair.together())
    return pair.first->cuDeviceGetP2PAttribute(value, which, pair.first.local(from),
                                               pair.first.local(to));
  const int number = static_cast<int>(which);
  if (value == nullptr || number < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
      number > CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED)
    return CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
