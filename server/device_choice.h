// Which of the devices that are served a guest gets, and in which order.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_DEVICE_CHOICE_H_
#define VGPU_SERVER_DEVICE_CHOICE_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/session/messages.h"

namespace vgpu::server {

// Who a device is, whatever its number.
struct DeviceIdentity {
  std::array<uint8_t, 16> uuid{};
  std::string pci_bus_id;  // dddd:bb:dd.f
};

// The devices that `list` names, as CUDA_VISIBLE_DEVICES would; empty: all. kNotFound when it names
// none.
Result<std::vector<uint32_t>> list_devices(std::span<const DeviceIdentity> devices,
                                           const std::string& list);

// Places in `served`, in the order in which the guest numbers its devices: all, or those that
// `offered` names if it names any; of these what hello.devices lists, by places in `served` or in
// `offered`; of these what hello.visible_devices lists, by places in what was left so far, which is
// in PCI order when the guest wants that. kNotFound: nothing is left; the text says whose list it
// was.
Result<std::vector<uint32_t>> choose_devices(std::span<const DeviceIdentity> served,
                                             const std::vector<uint32_t>& offered,
                                             const protocol::Hello& hello);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_DEVICE_CHOICE_H_
