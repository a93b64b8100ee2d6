// Which devices there are, and what they are: as CUDA in the same guest says it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "api/visible_devices.h"
#include "nvml/library.h"
#include "nvml_functions.h"

namespace vgpu::nvml {
namespace {

using protocol::DeviceFact;
using protocol::OwnDevice;

struct PciAddress {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  bool operator==(const PciAddress&) const = default;
};

// "domain:bus:device.function", where domain and function may be missing.
bool parse_pci(const char* text, PciAddress* address) {
  int end = 0;
  const auto whole = [&](int fields, int wanted) {
    return fields == wanted && end > 0 && text[end] == '\0';
  };
  PciAddress& a = *address;
  a = PciAddress();
  if (whole(std::sscanf(text, "%8x:%2x:%2x.%1x%n", &a.domain, &a.bus, &a.device, &a.function, &end),
            4))
    return true;
  a = PciAddress(), end = 0;
  if (whole(std::sscanf(text, "%8x:%2x:%2x%n", &a.domain, &a.bus, &a.device, &end), 3)) return true;
  a = PciAddress(), end = 0;
  return whole(std::sscanf(text, "%2x:%2x.%1x%n", &a.bus, &a.device, &a.function, &end), 3);
}

std::string uuid_text(const OwnDevice& device) { return device_uuid_text(device.uuid.data()); }

// The first device that `is` accepts.
template <typename Is>
nvmlReturn_t find(const Call& call, nvmlDevice_t* out, Is is) {
  const auto& devices = call.figures().devices;
  const auto at = std::find_if(devices.begin(), devices.end(), is);
  if (at == devices.end()) return NVML_ERROR_NOT_FOUND;
  nvmlDevice_t handle = call.view().handles[static_cast<size_t>(at - devices.begin())];
  if (handle == nullptr) return NVML_ERROR_NOT_FOUND;
  *out = handle;
  return NVML_SUCCESS;
}

// A number that the driver knows, or not.
nvmlReturn_t put_fact(const Call& call, nvmlDevice_t handle, DeviceFact fact, int unit,
                      unsigned int* out) {
  const OwnDevice* device = call.at(handle);
  if (device == nullptr) return NVML_ERROR_GPU_IS_LOST;
  if (device->fact(fact) <= 0) return NVML_ERROR_NOT_SUPPORTED;
  *out = static_cast<unsigned int>(device->fact(fact) / unit);
  return NVML_SUCCESS;
}

// What is the same for every vGPU.
template <typename T>
nvmlReturn_t put(T value, T* out) {
  *out = value;
  return NVML_SUCCESS;
}

// The numbers of an address for each layout of nvmlPciInfo_t; the ids of vendor and card are not
// known, as CUDA does not say them.
template <typename Info>
nvmlReturn_t put_address(const Call& call, nvmlDevice_t handle, Info* info, PciAddress* address) {
  const OwnDevice* device = call.at(handle);
  if (device == nullptr) return NVML_ERROR_GPU_IS_LOST;
  if (!parse_pci(device->pci_bus_id.c_str(), address)) return NVML_ERROR_NOT_SUPPORTED;
  info->domain = address->domain;
  info->bus = address->bus;
  info->device = address->device;
  info->pciDeviceId = 0;
  return NVML_SUCCESS;
}

void put_bus_id(const PciAddress& a, char (&to)[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE]) {
  std::snprintf(to, sizeof(to), "%08X:%02X:%02X.%X", a.domain, a.bus & 0xff, a.device & 0xff,
                a.function & 0xf);
}

void put_legacy(const PciAddress& a, char (&to)[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE]) {
  std::snprintf(to, sizeof(to), "%04X:%02X:%02X.%X", a.domain & 0xffff, a.bus & 0xff,
                a.device & 0xff, a.function & 0xf);
}

}  // namespace

namespace answer {

nvmlReturn_t nvmlDeviceGetCount_v2(const Call& call, unsigned int* count) {
  return put(static_cast<unsigned int>(call.figures().devices.size()), count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(const Call& call, unsigned int index,
                                           nvmlDevice_t* device) {
  const auto& handles = call.view().handles;
  if (index >= handles.size() || handles[index] == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return put<nvmlDevice_t>(handles[index], device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const Call& call, const char* uuid, nvmlDevice_t* device) {
  return find(call, device, [&](const OwnDevice& each) { return uuid_text(each) == uuid; });
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const Call& call, const nvmlUUID_t* uuid,
                                        nvmlDevice_t* device) {
  if (uuid->version != nvmlUUID_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (uuid->type == NVML_UUID_TYPE_BINARY) {
    return find(call, device, [&](const OwnDevice& each) {
      return std::memcmp(each.uuid.data(), uuid->value.bytes, each.uuid.size()) == 0;
    });
  }
  if (uuid->type != NVML_UUID_TYPE_ASCII) return NVML_ERROR_INVALID_ARGUMENT;
  const std::string text(uuid->value.str, strnlen(uuid->value.str, sizeof(uuid->value.str)));
  return nvmlDeviceGetHandleByUUID(call, text.c_str(), device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const Call& call, const char* pci,
                                              nvmlDevice_t* device) {
  PciAddress wanted;
  if (!parse_pci(pci, &wanted)) return NVML_ERROR_INVALID_ARGUMENT;
  return find(call, device, [&](const OwnDevice& each) {
    PciAddress has;
    return parse_pci(each.pci_bus_id.c_str(), &has) && has == wanted;
  });
}

nvmlReturn_t nvmlDeviceGetIndex(const Call& call, nvmlDevice_t device, unsigned int* index) {
  const int place = call.index(device);
  if (place < 0) return NVML_ERROR_GPU_IS_LOST;
  return put(static_cast<unsigned int>(place), index);
}

// Natively the number of /dev/nvidiaN. A guest has no such file; its index says which device.
nvmlReturn_t nvmlDeviceGetMinorNumber(const Call& call, nvmlDevice_t device, unsigned int* minor) {
  return nvmlDeviceGetIndex(call, device, minor);
}

nvmlReturn_t nvmlDeviceGetName(const Call& call, nvmlDevice_t handle, char* name,
                               unsigned int length) {
  const OwnDevice* device = call.at(handle);
  return device == nullptr ? NVML_ERROR_GPU_IS_LOST : put_text(device->name, name, length);
}

nvmlReturn_t nvmlDeviceGetUUID(const Call& call, nvmlDevice_t handle, char* uuid,
                               unsigned int length) {
  const OwnDevice* device = call.at(handle);
  return device == nullptr ? NVML_ERROR_GPU_IS_LOST : put_text(uuid_text(*device), uuid, length);
}

nvmlReturn_t nvmlDeviceGetBrand(const Call& call, nvmlDevice_t handle, nvmlBrandType_t* type) {
  const OwnDevice* device = call.at(handle);
  if (device == nullptr) return NVML_ERROR_GPU_IS_LOST;
  const auto has = [&](const char* word) { return device->name.find(word) != std::string::npos; };
  return put(has("GeForce")  ? NVML_BRAND_GEFORCE
             : has("TITAN")  ? NVML_BRAND_TITAN
             : has("Tesla")  ? NVML_BRAND_TESLA
             : has("Quadro") ? NVML_BRAND_QUADRO
             : has("NVIDIA") ? NVML_BRAND_NVIDIA
                             : NVML_BRAND_UNKNOWN,
             type);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(const Call& call, nvmlDevice_t device, nvmlPciInfo_t* pci) {
  PciAddress address;
  const nvmlReturn_t result = put_address(call, device, pci, &address);
  if (result != NVML_SUCCESS) return result;
  pci->pciSubSystemId = 0;
  put_legacy(address, pci->busIdLegacy);
  put_bus_id(address, pci->busId);
  return NVML_SUCCESS;
}

// The structure of version 2 is shorter than today's: it ends before busId.
nvmlReturn_t nvmlDeviceGetPciInfo_v2(const Call& call, nvmlDevice_t device, nvmlPciInfo_t* pci) {
  const nvmlReturn_t result = nvmlDeviceGetPciInfo(call, device, pci);
  if (result == NVML_SUCCESS) pci->pciSubSystemId = 0;
  return result;
}

// And that of version 1 before pciSubSystemId.
nvmlReturn_t nvmlDeviceGetPciInfo(const Call& call, nvmlDevice_t device, nvmlPciInfo_t* pci) {
  PciAddress address;
  const nvmlReturn_t result = put_address(call, device, pci, &address);
  if (result == NVML_SUCCESS) put_legacy(address, pci->busIdLegacy);
  return result;
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(const Call& call, nvmlDevice_t device, nvmlPciInfoExt_t* pci) {
  if (pci->version != nvmlPciInfoExt_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  PciAddress address;
  const nvmlReturn_t result = put_address(call, device, pci, &address);
  if (result != NVML_SUCCESS) return result;
  pci->pciSubSystemId = 0;
  pci->baseClass = 3;  // a display controller, as PCI's list of classes has it
  pci->subClass = 2;   // a 3D one
  put_bus_id(address, pci->busId);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(const Call& call, nvmlDevice_t handle, int* major,
                                                int* minor) {
  const OwnDevice* device = call.at(handle);
  if (device == nullptr) return NVML_ERROR_GPU_IS_LOST;
  *major = device->fact(DeviceFact::kComputeMajor);
  *minor = device->fact(DeviceFact::kComputeMinor);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetArchitecture(const Call& call, nvmlDevice_t handle,
                                       nvmlDeviceArchitecture_t* out) {
  static constexpr struct {
    int capability_min;  // ten times the major plus the minor number
    nvmlDeviceArchitecture_t name;
  } kArchitectures[] = {{130, NVML_DEVICE_ARCH_UNKNOWN}, {100, NVML_DEVICE_ARCH_BLACKWELL},
                        {90, NVML_DEVICE_ARCH_HOPPER},   {89, NVML_DEVICE_ARCH_ADA},
                        {80, NVML_DEVICE_ARCH_AMPERE},   {75, NVML_DEVICE_ARCH_TURING},
                        {70, NVML_DEVICE_ARCH_VOLTA},    {60, NVML_DEVICE_ARCH_PASCAL},
                        {50, NVML_DEVICE_ARCH_MAXWELL},  {30, NVML_DEVICE_ARCH_KEPLER},
                        {0, NVML_DEVICE_ARCH_UNKNOWN}};
  int major = 0, minor = 0;
  const nvmlReturn_t result = nvmlDeviceGetCudaComputeCapability(call, handle, &major, &minor);
  if (result != NVML_SUCCESS) return result;
  const int capability = major * 10 + minor;
  const auto at = std::find_if(std::begin(kArchitectures), std::end(kArchitectures) - 1,
                               [&](const auto& each) { return capability >= each.capability_min; });
  return put(at->name, out);
}

nvmlReturn_t nvmlDeviceGetMemoryBusWidth(const Call& call, nvmlDevice_t device,
                                         unsigned int* bits) {
  return put_fact(call, device, DeviceFact::kMemoryBusBits, 1, bits);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(const Call& call, nvmlDevice_t device, nvmlClockType_t type,
                                       unsigned int* mhz) {
  if (type == NVML_CLOCK_GRAPHICS || type == NVML_CLOCK_SM)
    return put_fact(call, device, DeviceFact::kClockKhz, 1000, mhz);
  if (type == NVML_CLOCK_MEM) return put_fact(call, device, DeviceFact::kMemoryClockKhz, 1000, mhz);
  return type == NVML_CLOCK_VIDEO ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetEccMode(const Call& call, nvmlDevice_t handle, nvmlEnableState_t* current,
                                  nvmlEnableState_t* pending) {
  const OwnDevice* device = call.at(handle);
  if (device == nullptr) return NVML_ERROR_GPU_IS_LOST;
  *current =
      device->fact(DeviceFact::kEccEnabled) != 0 ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
  *pending = *current;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeMode(const Call&, nvmlDevice_t, nvmlComputeMode_t* mode) {
  return put(NVML_COMPUTEMODE_DEFAULT, mode);  // any number of the guest's processes
}

// The worker keeps the driver's state whether a guest runs or not.
nvmlReturn_t nvmlDeviceGetPersistenceMode(const Call&, nvmlDevice_t, nvmlEnableState_t* mode) {
  return put(NVML_FEATURE_ENABLED, mode);
}

nvmlReturn_t nvmlDeviceGetDisplayMode(const Call&, nvmlDevice_t, nvmlEnableState_t* display) {
  return put(NVML_FEATURE_DISABLED, display);
}

nvmlReturn_t nvmlDeviceGetDisplayActive(const Call&, nvmlDevice_t, nvmlEnableState_t* active) {
  return put(NVML_FEATURE_DISABLED, active);
}

// The others are kinds of NVIDIA's own virtualisation, which come with licences and drivers that
// are not here.
nvmlReturn_t nvmlDeviceGetVirtualizationMode(const Call&, nvmlDevice_t,
                                             nvmlGpuVirtualizationMode_t* mode) {
  return put(NVML_GPU_VIRTUALIZATION_MODE_NONE, mode);
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(const Call&, nvmlDevice_t, unsigned int* is_mig) {
  return put(0U, is_mig);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(const Call&, nvmlDevice_t, unsigned int* count) {
  return put(0U, count);
}

nvmlReturn_t nvmlDeviceOnSameBoard(const Call&, nvmlDevice_t first, nvmlDevice_t second,
                                   int* same) {
  return put(first == second ? 1 : 0, same);
}

// A device reaches its own memory. How two devices of the host are joined is not the guest's to
// know: CUDA says whether its contexts may reach each other.
nvmlReturn_t nvmlDeviceGetP2PStatus(const Call&, nvmlDevice_t first, nvmlDevice_t second,
                                    nvmlGpuP2PCapsIndex_t what, nvmlGpuP2PStatus_t* status) {
  if (what < NVML_P2P_CAPS_INDEX_READ || what >= NVML_P2P_CAPS_INDEX_UNKNOWN)
    return NVML_ERROR_INVALID_ARGUMENT;
  const bool itself = first == second && what != NVML_P2P_CAPS_INDEX_NVLINK;
  return put(itself ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_UNKNOWN, status);
}

nvmlReturn_t nvmlDeviceGetMultiGpuBoard(const Call&, nvmlDevice_t, unsigned int* multiple) {
  return put(0U, multiple);
}

// Every field has its own result; none of them is known of a vGPU.
nvmlReturn_t nvmlDeviceGetFieldValues(const Call&, nvmlDevice_t, int count,
                                      nvmlFieldValue_t* values) {
  if (count <= 0) return NVML_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < count; ++i) values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
  return NVML_SUCCESS;
}

}  // namespace answer
}  // namespace vgpu::nvml
