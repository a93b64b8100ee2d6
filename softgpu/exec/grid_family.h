// The streams and events that the kernels of one grid have made: nobody else may use them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace vgpu::softgpu {

class StreamQueue;
struct EventPoint;

struct GridFamily {
  std::mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<StreamQueue>> streams;
  std::unordered_map<uint64_t, std::shared_ptr<EventPoint>> events;  // null: not recorded yet
};

}  // namespace vgpu::softgpu
