// The interrupt of an ivshmem-doorbell device, taken through VFIO.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_VM_INTERRUPT_H_
#define VGPU_VM_INTERRUPT_H_

#include <atomic>
#include <memory>
#include <string>

#include "base/mapping.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace vgpu::vm {

// Binds the device to vfio-pci and has its vector raise an eventfd. A page of the guest's own
// memory carries the epoch on which programs sleep (protocol/ring/bell.h). Not thread-safe.
class Interrupt {
 public:
  // `device`: its folder under /sys/bus/pci/devices.
  static Result<std::unique_ptr<Interrupt>> take(const std::string& device);

  // Polls readable when the device has rung; rang() then wakes every program that sleeps.
  int event() const { return event_.get(); }
  void rang();
  // The page of the epoch, for programs.
  int page() const { return page_.get(); }

 private:
  Interrupt() = default;
  Status open_device(const std::string& device);
  Status use_vector();

  UniqueFd container_, group_, device_, event_, page_;
  Mapping mapping_;
};

}  // namespace vgpu::vm

#endif  // VGPU_VM_INTERRUPT_H_
