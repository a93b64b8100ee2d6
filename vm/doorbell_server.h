// QEMU's other end of an ivshmem-doorbell device: hands it the memory and an interrupt each way.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_VM_DOORBELL_SERVER_H_
#define VGPU_VM_DOORBELL_SERVER_H_

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace vgpu::vm {

// Speaks QEMU's "ivshmem client-server protocol" (version 0) to one machine at a time: we are peer
// 0, it is peer 1, one vector each. Not thread-safe.
class DoorbellServer {
 public:
  // `region` is borrowed.
  static Result<std::unique_ptr<DoorbellServer>> listen(const std::string& path, int region);
  ~DoorbellServer();

  // Adds what is to be polled for; look() then takes what came.
  void add_to(std::vector<pollfd>* descriptors) const;
  enum class Seen : uint8_t { kNothing, kRing, kMachineGone };
  Seen look();

  bool connected() const { return qemu_.valid(); }
  // An eventfd: interrupts the machine.
  int to_guest() const { return to_guest_.get(); }

 private:
  DoorbellServer(std::string path, int region) : path_(std::move(path)), region_(region) {}
  Status introduce(int socket) const;
  void accept_machine();

  const std::string path_;
  const int region_;
  bool bound_ = false;
  UniqueFd listener_, qemu_;
  UniqueFd to_host_, to_guest_;
};

}  // namespace vgpu::vm

#endif  // VGPU_VM_DOORBELL_SERVER_H_
