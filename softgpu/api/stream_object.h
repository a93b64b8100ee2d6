// Streams and events as the program knows them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "api/stream_attributes.h"
#include "softgpu/exec/channel.h"
#include "softgpu/exec/stream_queue.h"

namespace vgpu::softgpu {

class Context;
class Module;
class PeerEvent;

// Immutable but for its queue's contents and its attributes.
struct Stream {
  Context* context = nullptr;
  std::shared_ptr<Channel> channel;  // of the context's life it was made in
  std::shared_ptr<StreamQueue> queue;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  CUstream handle = nullptr;
  std::mutex mutex;
  StreamAttributes attributes;  // under `mutex`
};

struct Event {
  Context* context = nullptr;
  std::shared_ptr<Channel> channel;
  unsigned flags = 0;
  std::mutex mutex;
  std::shared_ptr<EventPoint> point;    // the latest record; null = never recorded
  uint64_t stream_id = 0, ordinal = 0;  // where that was; stream 0: in no stream, but in a graph
  std::shared_ptr<PeerEvent> peer;      // of CU_EVENT_INTERPROCESS; set before others see the event

  std::shared_ptr<EventPoint> latest() {
    std::lock_guard<std::mutex> lock(mutex);
    return point;
  }
};

}  // namespace vgpu::softgpu
