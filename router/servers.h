// All servers of the guest, and the devices that it sees. The router's only global.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_ROUTER_SERVERS_H_
#define VGPU_ROUTER_SERVERS_H_

#include <cuda.h>

#include <atomic>
#include <deque>
#include <string>
#include <vector>

#include "router/server.h"

namespace vgpu::router {

struct DevicePlace {
  Server* server = nullptr;
  CUdevice local = 0;  // its number there
};

class Servers {
 public:
  // The copies, each told its server; attached to none yet. nullptr: that failed, and was said.
  static Servers* loaded();
  // cuInit: attaches to all, or gives the first error. Later calls give the same answer.
  static CUresult attach();
  // What attach() has made; null before it has succeeded.
  // acquire: partner is the release in attach().
  static Servers* attached() { return attached_.load(std::memory_order_acquire); }

  std::deque<Server>& all() { return all_; }
  Server* at(uint64_t number) { return number < all_.size() ? &all_[number] : nullptr; }
  // In the program's numbers: what CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER leave of all.
  const std::vector<DevicePlace>& devices() const { return devices_; }
  const DevicePlace* device(CUdevice number) const {
    const auto index = static_cast<size_t>(number);
    return number >= 0 && index < devices_.size() ? &devices_[index] : nullptr;
  }
  // The program's number of a server's device; CU_DEVICE_INVALID when it does not see it.
  CUdevice number_of(const Server& server, CUdevice local) const;
  // What is added to the PCI domains of a server's devices, so that no two have one address.
  static int domain_of(const Server& server) { return static_cast<int>(server.number) << 12; }

 private:
  static Servers* load();
  CUresult attach_all();
  CUresult choose_devices();

  static std::atomic<Servers*> attached_;
  std::deque<Server> all_;
  std::vector<DevicePlace> devices_;
};

// One line to the program's terminal, as when there is no server: it cannot go on.
void say(const std::string& text);

}  // namespace vgpu::router

#endif  // VGPU_ROUTER_SERVERS_H_
