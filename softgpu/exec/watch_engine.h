// A thread that looks at memory for the streams that wait for a value there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "softgpu/exec/stream_queue.h"

namespace vgpu::softgpu {

class GridManagement;

// Thread-safe. Its thread starts with the first command and sleeps when there is none; no wait
// delays another. Never destroyed while it runs.
class WatchEngine {
 public:
  explicit WatchEngine(GridManagement* management) : management_(management) {}

  // Watches for a started command; when it is ready, or its channel has failed,
  // GridManagement::complete() is told.
  void add(Command* command);

 private:
  void loop();

  GridManagement* const management_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::vector<Command*> commands_;
  bool running_ = false;
};

}  // namespace vgpu::softgpu
