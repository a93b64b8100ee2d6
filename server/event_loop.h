// vgpud's one loop: descriptors that became ready call their owners.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_EVENT_LOOP_H_
#define VGPU_SERVER_EVENT_LOOP_H_

#include <functional>
#include <unordered_map>

#include "base/status.h"
#include "base/unique_fd.h"

namespace vgpu::server {

// Not thread-safe. Callbacks may add and remove descriptors, their own included.
class EventLoop {
 public:
  static Result<EventLoop> create();

  // Calls `ready` whenever `fd` (borrowed) is readable or hung up.
  Status add(int fd, std::function<void()> ready);
  void remove(int fd);
  // Waits once for at most timeout_ms (< 0: no limit) and calls what is ready.
  void run_once(int timeout_ms);

 private:
  UniqueFd epoll_;
  std::unordered_map<int, std::function<void()>> ready_;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_EVENT_LOOP_H_
