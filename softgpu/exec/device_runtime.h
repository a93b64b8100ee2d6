// The driver's part of NVIDIA's device runtime: launches, streams and events of running kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "softgpu/exec/kernel_host.h"

namespace vgpu::softgpu {

class StreamQueue;

// Of one block at a time, used by whoever runs it. Touches no memory of the program but its own
// parameter buffers, and is left by no jump: what faults, faults before or after.
class DeviceRuntime {
 public:
  DeviceRuntime();
  ~DeviceRuntime();

  // `grid`: the block's; lives longer than the block. nullptr: there is no device around, so that
  // every call fails.
  void begin(Grid* grid);
  // Forgets what the block has prepared and not launched. What it has launched goes on.
  void end();

  // Per thread of the block; cudaError_t, as the runtime sets it.
  uint32_t last_error(uint32_t thread) const;
  void set_last_error(uint32_t thread, uint32_t error);

  // Memory for the parameters of a launch. 0 when it cannot be: the thread's last error says why.
  uint64_t parameter_buffer(uint32_t thread, uint64_t function, const ChildShape& shape);
  CnpError launch(uint32_t thread, uint64_t buffer, uint64_t stream);
  // The same with buffers that know nothing of their launch.
  uint64_t plain_buffer(uint32_t alignment, uint32_t bytes);
  CnpError launch_plain(uint32_t thread, uint64_t function, uint64_t buffer,
                        const ChildShape& shape, uint64_t stream);

  CnpError create_stream(uint32_t flags, uint64_t* stream);
  CnpError destroy_stream(uint64_t stream);
  CnpError create_event(uint32_t flags, uint64_t* event);
  CnpError destroy_event(uint64_t event);
  CnpError record(uint32_t thread, uint64_t event, uint64_t stream);
  CnpError wait(uint32_t thread, uint64_t stream, uint64_t event);

  // nullptr without a device.
  KernelHost* host() const;

 private:
  struct PlainBuffer {
    std::unique_ptr<uint8_t[]> bytes;
    uint64_t address = 0;
    uint32_t size = 0;
  };

  CnpError prepare(uint64_t function, const ChildShape& shape, std::unique_ptr<Command>* command);
  void give_back(const Command& command);
  CnpError submit(uint32_t thread, std::unique_ptr<Command> command, uint64_t stream);
  std::shared_ptr<StreamQueue> queue_of(uint32_t thread, uint64_t stream);
  std::shared_ptr<StreamQueue> open_queue() const;

  Grid* grid_ = nullptr;
  std::vector<uint32_t> errors_;                    // by thread; empty: none has set one
  std::vector<std::unique_ptr<Command>> prepared_;  // with a buffer, not launched yet
  std::vector<PlainBuffer> plain_;                  // until the block ends
  std::shared_ptr<StreamQueue> block_queue_;        // the null stream
  std::unordered_map<uint32_t, std::shared_ptr<StreamQueue>> thread_queues_;
};

}  // namespace vgpu::softgpu
