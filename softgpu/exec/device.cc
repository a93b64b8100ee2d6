// Building a device and starting its SMs.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/device.h"

#include <cstdio>
#include <utility>

#include "base/time_slice.h"
#include "softgpu/exec/engine_thread.h"

namespace vgpu::softgpu {
namespace {

// A kernel's registers that the processor has no room for are on its stack, 128 or 256 bytes each,
// and some kernels have ten thousand. Pages that none touches cost nothing.
constexpr size_t kSmStackBytes = 64u << 20;

}  // namespace

Result<std::unique_ptr<Device>> Device::create(DeviceConfig config, Device* first) {
  Result<std::unique_ptr<DeviceSegment>> segment = DeviceSegment::open(config);
  if (!segment.ok()) return segment.status();
  config.sms = (*segment)->sms();
  config.memory_bytes = (*segment)->memory_bytes();
  std::unique_ptr<Device> device(new Device(std::move(config), std::move(segment).value(), first));
  Result<std::unique_ptr<MemorySpace>> memory =
      MemorySpace::create(device->segment_.get(), device->config_.strict, device->config_.ordinal);
  if (!memory.ok()) return memory.status();
  device->memory_ = std::move(memory).value();
  Result<std::unique_ptr<PhysicalMemory>> physical = PhysicalMemory::create(
      device->segment_.get(), first == nullptr ? nullptr : &first->physical(),
      device->config_.identity);
  if (!physical.ok()) return physical.status();
  device->physical_ = std::move(physical).value();
  return device;
}

Device::Device(DeviceConfig config, std::unique_ptr<DeviceSegment> segment, Device* first)
    : config_(std::move(config)),
      segment_(std::move(segment)),
      distributor_(config_.sms, segment_.get()),
      own_management_(first != nullptr ? nullptr
                                       : std::make_unique<GridManagement>(
                                             config_.contrary ? kLaunchDepthContrary : kLaunchDepth,
                                             config_.launch_timeout_ms)),
      management_(first != nullptr ? first->management_ : own_management_.get()) {
  management_->add_distributor(&distributor_);
}

Device::~Device() = default;

bool Device::ensure_sms() {
  std::call_once(sms_started_, [this] {
    for (uint32_t id = 0; id < config_.sms; ++id) {
      sms_.push_back(
          std::make_unique<Sm>(id, &distributor_, management_, segment_.get(), memory_.get()));
      char name[24];
      std::snprintf(name, sizeof(name), "vgpu-sm%u", id);
      Sm* const sm = sms_.back().get();
      if (!start_engine_thread(
              name,
              [sm] {
                use_usual_time_slices();
                sm->loop();
              },
              kSmStackBytes)) {
        sms_.pop_back();
        break;
      }
      sms_running_ = true;  // one is enough to make progress
    }
  });
  return sms_running_;
}

}  // namespace vgpu::softgpu
