// Finding the memory of an ivshmem device in a guest.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_VM_REGION_FILE_H_
#define VGPU_VM_REGION_FILE_H_

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace vgpu::vm {

struct RegionFile {
  UniqueFd memory;     // the whole region
  UniqueFd registers;  // of the device; invalid for a plain file
  uint64_t bytes = 0;
  std::string device;  // folder under /sys/bus/pci/devices; empty for a plain file
};

// "ivshmem:" (the first such device), "ivshmem:0000:00:04.0" or "ivshmem:/path/of/a/file" (tests).
// `devices` is where the kernel lists PCI devices.
Result<RegionFile> open_region(const std::string& address,
                               const std::string& devices = "/sys/bus/pci/devices");

}  // namespace vgpu::vm

#endif  // VGPU_VM_REGION_FILE_H_
