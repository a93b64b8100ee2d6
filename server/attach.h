// Making a device ready for one guest, and answering the guest's hello. Used by the worker and by
// loop. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_ATTACH_H_
#define VGPU_SERVER_ATTACH_H_

#include <string>
#include <vector>

#include "driver_table.h"
#include "protocol/session/messages.h"

namespace vgpu::server {

// Where guest and worker claim device addresses, best first; see docs/memory.md.
inline constexpr uint64_t kDeviceRangeBases[] = {0x2000'0000'0000, 0x3800'0000'0000,
                                                 0x4000'0000'0000};
inline constexpr uint64_t kDeviceRangeBytes = uint64_t{8} << 40;

// One device with its primary context, opened once per process. Not thread-safe.
class Device {
 public:
  // cuInit, device 0, its primary context, current on this thread. `driver` stays borrowed.
  static Result<Device> open(const DriverTable* driver);

  CUdevice device() const { return device_; }
  CUcontext primary() const { return primary_; }
  int driver_version() const { return driver_version_; }
  uint64_t memory_bytes() const { return memory_bytes_; }
  const std::string& name() const { return name_; }

  // Reserves device addresses ahead: the first candidate that the driver gives as asked.
  void reserve_ahead();
  // The same anywhere, for a guest in this very process, which need not hold the range too. No
  // bytes when the driver gives none.
  protocol::AddressRange reserve_here(uint64_t bytes);
  // Memory can be handed to other workers as descriptors.
  bool shares_memory() const { return shares_memory_; }
  // What the guest gets: an address range that both hold, or another way to allocate.
  void choose_range(const protocol::Hello& hello, protocol::HelloReply* reply);
  // Name, identity, attributes and limits as a guest with `grant_bytes` sees them.
  protocol::DeviceSnapshot snapshot(uint64_t grant_bytes) const;

 private:
  bool reserve(const protocol::AddressRange& range);
  void drop_reservation();

  const DriverTable* driver_ = nullptr;
  CUdevice device_ = 0;
  CUcontext primary_ = nullptr;
  int driver_version_ = 0;
  uint64_t memory_bytes_ = 0;
  std::string name_;
  bool virtual_memory_ = false;
  bool shares_memory_ = false;
  protocol::AddressRange reserved_;
};

// The answer to a hello that has been checked, but for the channel's memory.
protocol::HelloReply make_reply(Device* device, const protocol::Hello& hello, uint64_t grant_bytes,
                                uint64_t session, const std::string& driver_name);

// Claims a range for host memory that the guest holds too, so that the driver puts nothing there:
// behind the device range that was chosen, or behind any that the guest offers when none was. Empty
// when all are taken: then the guest can map no host memory.
protocol::AddressRange claim_host_range(const protocol::Hello& hello,
                                        const protocol::AddressRange& device_range);

extern const char kServerVersion[];

}  // namespace vgpu::server

#endif  // VGPU_SERVER_ATTACH_H_
