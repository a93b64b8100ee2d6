// One software GPU: memory, queues and SMs put together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <memory>
#include <mutex>
#include <vector>

#include "softgpu/exec/device_config.h"
#include "softgpu/exec/device_segment.h"
#include "softgpu/exec/grid_management.h"
#include "softgpu/exec/memory_space.h"
#include "softgpu/exec/physical_memory.h"
#include "softgpu/exec/sm.h"
#include "softgpu/exec/work_distributor.h"

namespace vgpu::softgpu {

// Thread-safe. Lives until the process ends: its threads are never joined.
class Device {
 public:
  // `first`: another device of the process, whose queues it shares, so that events order the work
  // of both; null for the first. All of them live as long as the process.
  static Result<std::unique_ptr<Device>> create(DeviceConfig config, Device* first = nullptr);
  ~Device();

  const DeviceConfig& config() const { return config_; }
  DeviceSegment& segment() { return *segment_; }
  MemorySpace& memory() { return *memory_; }
  PhysicalMemory& physical() { return *physical_; }
  GridManagement& management() { return *management_; }
  WorkDistributor& distributor() { return distributor_; }

  // Starts the SMs at the first launch. False when the system gives no threads.
  bool ensure_sms();
  // How many of them run, from the first on; after ensure_sms().
  uint32_t running_sms() const { return static_cast<uint32_t>(sms_.size()); }

 private:
  Device(DeviceConfig config, std::unique_ptr<DeviceSegment> segment, Device* first);

  const DeviceConfig config_;
  const std::unique_ptr<DeviceSegment> segment_;
  std::unique_ptr<MemorySpace> memory_;
  std::unique_ptr<PhysicalMemory> physical_;
  WorkDistributor distributor_;
  std::unique_ptr<GridManagement> own_management_;  // of the first device
  GridManagement* const management_;
  std::once_flag sms_started_;
  bool sms_running_ = false;
  std::vector<std::unique_ptr<Sm>> sms_;
};

}  // namespace vgpu::softgpu
