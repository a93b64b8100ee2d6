// How a worker that serves ends itself.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_LEAVING_H_
#define VGPU_SERVER_LEAVING_H_

#include <mutex>

namespace vgpu::server {

inline constexpr int kLeaveMs = 5000;  // for vgpud to end it, before it ends all the same

// An isolated worker just ends: the kernel and the driver clean up. A client of MPS that dies with
// work in flight does harm to its neighbours, so there vgpud is asked to end it. Any thread.
class Leaving {
 public:
  explicit Leaving(bool asks_first) : asks_first_(asks_first) {}

  // vgpud's socket, borrowed until disconnected().
  void connected(int control);
  void disconnected() { connected(-1); }
  // Ends the process with `code`.
  [[noreturn]] void leave(int code);

 private:
  const bool asks_first_;
  std::mutex mutex_;
  int control_ = -1;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_LEAVING_H_
