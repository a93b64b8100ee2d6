// Devices: cuDevice*, from the snapshot that came with the attachment.
// SPDX-License-Identifier: Apache-2.0
#include "shim/device.h"

#include <cuda.h>
#include <cudaProfiler.h>

#include <cstdio>
#include <cstring>

#include "driver_functions.h"
#include "shim/host_block.h"

namespace vgpu::shim {

bool can_access_peer(Session& session, CUdevice device, CUdevice owner) {
  const protocol::DeviceSnapshot* snapshot = session.device(device);
  return snapshot != nullptr && peer_fact(*snapshot, owner, 0) == 1;
}

MultiprocessorLimits multiprocessor_limits(const protocol::DeviceSnapshot& device) {
  MultiprocessorLimits limits;
  limits.compute_major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  limits.warp_size = attribute(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  limits.threads_per_block_max = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  limits.threads_max = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  limits.blocks_max = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  limits.registers = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  limits.registers_per_block_max = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  limits.shared_bytes = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  limits.shared_per_block_max = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  limits.shared_per_block_optin_max =
      attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  limits.shared_reserved_per_block =
      attribute(device, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  if (limits.warp_size <= 0) limits.warp_size = 32;
  return limits;
}

}  // namespace vgpu::shim

namespace vgpu::driver {

using shim::attribute;
using shim::Process;
using shim::Session;

namespace {

CUresult look_up(CUdevice number, const protocol::DeviceSnapshot** device) {
  Session* session = Process::session();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  *device = session->device(number);
  return *device == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

}  // namespace

CUresult cuDeviceGetCount(int* count) {
  Session* session = Process::session();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(session->hello().devices.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* out, int ordinal) {
  const protocol::DeviceSnapshot* device;
  if (CUresult r = look_up(ordinal, &device); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int bytes, CUdevice number) {
  const protocol::DeviceSnapshot* device;
  if (CUresult r = look_up(number, &device); r != CUDA_SUCCESS) return r;
  if (name == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, static_cast<size_t>(bytes), "%s", device->name.c_str());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice number) {
  const protocol::DeviceSnapshot* device;
  if (CUresult r = look_up(number, &device); r != CUDA_SUCCESS) return r;
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(uuid->bytes, device->uuid.data(), sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetLuid(char*, unsigned int*, CUdevice number) {
  const protocol::DeviceSnapshot* device;
  if (CUresult r = look_up(number, &device); r != CUDA_SUCCESS) return r;
  return CUDA_ERROR_NOT_SUPPORTED;  // as natively on Linux
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice number) {
  const protocol::DeviceSnapshot* device;
  if (CUresult r = look_up(number, &device); r != CUDA_SUCCESS) return r;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = Process::session()->guest_device(number).memory().total();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice number) {
  const protocol::DeviceSnapshot* device;
  if (CUresult r = look_up(number, &device); r != CUDA_SUCCESS) return r;
  if (value == nullptr || which <= 0 || which >= CU_DEVICE_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  *value = attribute(*device, which);
  const bool managed = which == CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY ||
                       which == CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS ||
                       which == CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST;
  if (managed && !shim::shares_host_memory(*Process::session())) *value = 0;
  const bool mapped = which == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ||
                      which == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED ||
                      which == CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED;
  if (mapped && !Process::session()->virtual_memory().served()) *value = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice number) {
  if (CUresult r =
          driver::cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, number);
      r != CUDA_SUCCESS) {
    return r;
  }
  return driver::cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, number);
}

CUresult cuDeviceGetProperties(CUdevprop* out, CUdevice number) {
  const protocol::DeviceSnapshot* device;
  if (CUresult r = look_up(number, &device); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto get = [&](CUdevice_attribute which) { return attribute(*device, which); };
  *out =
      CUdevprop{get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
                {get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                 get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
                {get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                 get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
                get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
                get(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
                get(CU_DEVICE_ATTRIBUTE_WARP_SIZE),
                get(CU_DEVICE_ATTRIBUTE_MAX_PITCH),
                get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
                get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
                get(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)};
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int bytes, CUdevice number) {
  const protocol::DeviceSnapshot* device;
  if (CUresult r = look_up(number, &device); r != CUDA_SUCCESS) return r;
  if (text == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!device->pci_bus_id.empty()) {
    std::snprintf(text, static_cast<size_t>(bytes), "%s", device->pci_bus_id.c_str());
    return CUDA_SUCCESS;
  }
  std::snprintf(text, static_cast<size_t>(bytes), "%04X:%02X:%02X.0",
                attribute(*device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                attribute(*device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
                attribute(*device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* out, const char* text) {
  Session* session = Process::session();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (out == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned domain = 0, bus = 0, slot = 0;
  if (std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) {
    domain = 0;
    if (std::sscanf(text, "%x:%x", &bus, &slot) != 2) return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < session->hello().devices.size(); ++i) {
    const protocol::DeviceSnapshot& device = session->hello().devices[i];
    if (attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) != static_cast<int>(domain) ||
        attribute(device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) != static_cast<int>(bus) ||
        attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) != static_cast<int>(slot)) {
      continue;
    }
    *out = static_cast<CUdevice>(i);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice number, CUdevice peer) {
  const protocol::DeviceSnapshot* device;
  if (CUresult r = look_up(number, &device); r != CUDA_SUCCESS) return r;
  if (CUresult r = look_up(peer, &device); r != CUDA_SUCCESS) return r;
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = number != peer && shim::can_access_peer(*Process::session(), number, peer) ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute which, CUdevice from,
                                 CUdevice to) {
  const protocol::DeviceSnapshot *device, *other;
  if (CUresult r = look_up(from, &device); r != CUDA_SUCCESS) return r;
  if (CUresult r = look_up(to, &other); r != CUDA_SUCCESS) return r;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (from == to) return CUDA_ERROR_INVALID_DEVICE;
  const int number = static_cast<int>(which);
  const int fact = number > 0 && number < protocol::kPeerFacts
                       ? shim::peer_fact(*device, to, number)
                       : protocol::kPeerFactUnknown;
  if (fact == protocol::kPeerFactUnknown) return CUDA_ERROR_INVALID_VALUE;
  *value = fact;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType type, CUdevice number) {
  const protocol::DeviceSnapshot* device;
  if (CUresult r = look_up(number, &device); r != CUDA_SUCCESS) return r;
  if (supported == nullptr || static_cast<unsigned>(type) >= CU_EXEC_AFFINITY_TYPE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  wire::DeviceAffinityArgs args;
  args.device = static_cast<uint32_t>(number);
  wire::DeviceAffinityReply answer;
  Session* const session = Process::session();
  const CUresult r = session->ask(nullptr, Op::kDeviceAffinity, args, &answer);
  if (r == CUDA_SUCCESS) *supported = answer.supported != 0 ? 1 : 0;
  return r;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* width, CUarray_format format, unsigned channels,
                                            CUdevice number) {
  const protocol::DeviceSnapshot* device;
  if (CUresult r = look_up(number, &device); r != CUDA_SUCCESS) return r;
  const bool channels_valid = channels == 1 || channels == 2 || channels == 4;
  if (width == nullptr || !channels_valid || static_cast<unsigned>(format) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  *width =
      static_cast<size_t>(attribute(*device, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH));
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
