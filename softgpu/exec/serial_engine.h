// A thread that runs commands one after another: the copy engine, and the one that calls host
// functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "softgpu/exec/stream_queue.h"

namespace vgpu::softgpu {

class GridManagement;

// Thread-safe. Its thread starts with the first command and sleeps when there is none. Never
// destroyed while it runs.
class SerialEngine {
 public:
  SerialEngine(const char* name, GridManagement* management)
      : name_(name), management_(management) {}

  // Queues a started command; when it has run, GridManagement::complete() is told.
  void add(Command* command);

 private:
  void loop();
  static void run(const Command& command);

  const char* const name_;
  GridManagement* const management_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<Command*> commands_;
  bool running_ = false;
};

}  // namespace vgpu::softgpu
