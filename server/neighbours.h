// Sessions that have one process and its contexts together.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_NEIGHBOURS_H_
#define VGPU_SERVER_NEIGHBOURS_H_

#include <cuda.h>

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace vgpu::server {

class Session;

// Who is told when a context breaks that all of them have. Thread-safe.
class Neighbours {
 public:
  // `broken` is called with the first fault: nobody new may come.
  explicit Neighbours(std::function<void()> broken) : broken_(std::move(broken)) {}
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  void add(Session* session);
  // Nobody calls it any more when this returns.
  void remove(Session* session);
  // `from` has met a fault; the others hear of it.
  void faulted(const Session* from, CUcontext context, CUresult result);

 private:
  std::mutex mutex_;
  std::vector<Session*> sessions_;
  std::function<void()> broken_;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_NEIGHBOURS_H_
