// A relay for one TCP connection that counts how often its sides wait for each other.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_RELAY_H_
#define VGPU_TOOLS_VGPU_RELAY_H_

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/unique_fd.h"

namespace vgpu::tools {

// Listens at the loopback address, takes one connection after the other and passes each on to
// `port` there. Ends with its destructor.
class Relay {
 public:
  // Throws std::runtime_error when it cannot listen.
  explicit Relay(uint16_t port);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  uint16_t port() const { return own_port_; }
  // Of the newest connection: making it, and each time that something came back after something was
  // sent.
  int round_trips() const { return round_trips_.load(); }

 private:
  void run();
  void pass(int guest, int server);

  uint16_t own_port_ = 0, port_;
  UniqueFd listener_, end_;  // end_: an eventfd
  std::atomic<int> round_trips_{0};
  std::thread thread_;
};

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_RELAY_H_
