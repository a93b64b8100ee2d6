// Streams of kernels are queues like any other, of which only their grid knows.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/device_runtime.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "softgpu/exec/grid.h"
#include "softgpu/exec/grid_family.h"
#include "softgpu/exec/grid_management.h"

namespace vgpu::softgpu {
namespace {

// Handles that mean something by themselves, as cuda_device_runtime_api.h names them.
constexpr uint64_t kNullStream = 0, kLegacyStream = 1, kPerThreadStream = 2, kTailLaunch = 3,
                   kFireAndForget = 4;
// What the host's API calls cudaStreamNonBlocking and cudaEventDisableTiming; nothing else is
// taken.
constexpr uint32_t kStreamFlags = 1, kEventFlags = 2;
// cudaErrorInvalidValue, MemoryAllocation, InvalidConfiguration, LaunchOutOfResources: for the one
// call whose result is no error number.
constexpr uint32_t kCudaInvalidValue = 1, kCudaOutOfMemory = 2, kCudaInvalidConfiguration = 9,
                   kCudaOutOfResources = 701;
constexpr uint32_t kPlainBytesMax = 4096;  // parameters of one launch

uint32_t as_cuda_error(CnpError error) {
  switch (error) {
    case CnpError::kOutOfMemory:
      return kCudaOutOfMemory;
    case CnpError::kOutOfResources:
      return kCudaOutOfResources;
    case CnpError::kInvalidConfiguration:
      return kCudaInvalidConfiguration;
    default:
      return kCudaInvalidValue;
  }
}

uint64_t next_handle() {
  static std::atomic<uint64_t> next{1};
  constexpr uint64_t kFirst = 0x10000;  // above all that means something by itself
  return kFirst + 16 * next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

DeviceRuntime::DeviceRuntime() = default;
DeviceRuntime::~DeviceRuntime() = default;

void DeviceRuntime::begin(Grid* grid) { grid_ = grid; }

void DeviceRuntime::end() {
  for (const auto& command : prepared_) give_back(*command);
  prepared_.clear();
  plain_.clear();
  errors_.clear();
  block_queue_ = nullptr;
  thread_queues_.clear();
  grid_ = nullptr;
}

KernelHost* DeviceRuntime::host() const { return grid_ == nullptr ? nullptr : grid_->host.get(); }

uint32_t DeviceRuntime::last_error(uint32_t thread) const {
  return thread < errors_.size() ? errors_[thread] : 0;
}

void DeviceRuntime::set_last_error(uint32_t thread, uint32_t error) {
  if (thread >= errors_.size()) errors_.resize(thread + 1);
  errors_[thread] = error;
}

// Takes one of the context's places for launches that wait.
CnpError DeviceRuntime::prepare(uint64_t function, const ChildShape& shape,
                                std::unique_ptr<Command>* command) {
  if (host() == nullptr) return CnpError::kInvalidValue;
  std::atomic<uint32_t>& pending = grid_->channel->pending_launches;
  if (pending.fetch_add(1, std::memory_order_relaxed) >= host()->pending_launches_max()) {
    pending.fetch_sub(1, std::memory_order_relaxed);
    return CnpError::kOutOfResources;
  }
  const CnpError made = host()->make_child(*grid_, function, shape, command);
  if (made != CnpError::kSuccess) {
    pending.fetch_sub(1, std::memory_order_relaxed);
    return made;
  }
  (*command)->grid->holds_place = true;
  return CnpError::kSuccess;
}

void DeviceRuntime::give_back(const Command& command) {
  if (std::exchange(command.grid->holds_place, false))
    command.grid->channel->pending_launches.fetch_sub(1, std::memory_order_relaxed);
}

uint64_t DeviceRuntime::parameter_buffer(uint32_t thread, uint64_t function,
                                         const ChildShape& shape) {
  std::unique_ptr<Command> command;
  const CnpError made = prepare(function, shape, &command);
  if (made != CnpError::kSuccess) {
    set_last_error(thread, as_cuda_error(made));
    return 0;
  }
  prepared_.push_back(std::move(command));
  return reinterpret_cast<uint64_t>(prepared_.back()->grid->param_bytes.data());
}

CnpError DeviceRuntime::launch(uint32_t thread, uint64_t buffer, uint64_t stream) {
  // The threads of a warp take their buffers together, so it is among the last.
  const auto found = std::find_if(prepared_.rbegin(), prepared_.rend(), [&](const auto& command) {
    return reinterpret_cast<uint64_t>(command->grid->param_bytes.data()) == buffer;
  });
  if (found == prepared_.rend()) return CnpError::kInvalidValue;
  std::unique_ptr<Command> command = std::move(*found);
  *found = std::move(prepared_.back());
  prepared_.pop_back();
  return submit(thread, std::move(command), stream);
}

uint64_t DeviceRuntime::plain_buffer(uint32_t alignment, uint32_t bytes) {
  if (bytes > kPlainBytesMax || alignment > kPlainBytesMax) return 0;
  alignment = std::max(alignment, 16U);
  if ((alignment & (alignment - 1)) != 0) return 0;
  PlainBuffer buffer;
  buffer.size = bytes;
  buffer.bytes = std::make_unique<uint8_t[]>(size_t{bytes} + alignment);
  buffer.address =
      (reinterpret_cast<uint64_t>(buffer.bytes.get()) + alignment - 1) / alignment * alignment;
  plain_.push_back(std::move(buffer));
  return plain_.back().address;
}

CnpError DeviceRuntime::launch_plain(uint32_t thread, uint64_t function, uint64_t buffer,
                                     const ChildShape& shape, uint64_t stream) {
  const auto found = std::find_if(plain_.rbegin(), plain_.rend(), [&](const PlainBuffer& plain) {
    return plain.address == buffer;
  });
  if (found == plain_.rend() && buffer != 0) return CnpError::kInvalidValue;
  std::unique_ptr<Command> command;
  const CnpError made = prepare(function, shape, &command);
  if (made != CnpError::kSuccess) return made;
  std::vector<uint8_t>& parameters = command->grid->param_bytes;
  if (found != plain_.rend()) {
    std::memcpy(parameters.data(), reinterpret_cast<const void*>(buffer),
                std::min<size_t>(found->size, parameters.size()));
  }
  return submit(thread, std::move(command), stream);
}

CnpError DeviceRuntime::submit(uint32_t thread, std::unique_ptr<Command> command, uint64_t stream) {
  GridManagement& management = *grid_->management;
  if (stream == kTailLaunch) {
    command->grid->depth = grid_->depth;  // it follows its grid, it is not below it
    management.add_tail(*grid_, std::move(command));
    return CnpError::kSuccess;
  }
  CnpError error = CnpError::kSuccess;
  if (command->grid->depth > kLaunchNestingMax) error = CnpError::kDepthExceeded;
  std::shared_ptr<StreamQueue> queue;
  if (error == CnpError::kSuccess) {
    queue = stream == kFireAndForget ? open_queue() : queue_of(thread, stream);
    if (queue == nullptr) error = CnpError::kInvalidValue;
  }
  if (error != CnpError::kSuccess) {
    give_back(*command);
    return error;
  }
  management.submit_child(*grid_, queue, std::move(command));
  return CnpError::kSuccess;
}

std::shared_ptr<StreamQueue> DeviceRuntime::open_queue() const {
  auto queue = std::make_shared<StreamQueue>(grid_->channel, false, false, grid_->priority);
  queue->unbounded = true;  // the places for launches bound it
  return queue;
}

// nullptr when there is no such stream, or none that can be used so.
std::shared_ptr<StreamQueue> DeviceRuntime::queue_of(uint32_t thread, uint64_t stream) {
  if (grid_ == nullptr || stream == kTailLaunch || stream == kFireAndForget) return nullptr;
  if (stream == kNullStream || stream == kLegacyStream || stream == kPerThreadStream) {
    std::shared_ptr<StreamQueue>& queue =
        stream == kPerThreadStream ? thread_queues_[thread] : block_queue_;
    if (queue == nullptr) queue = open_queue();
    return queue;
  }
  GridFamily& family = grid_->family();
  std::lock_guard<std::mutex> lock(family.mutex);
  const auto found = family.streams.find(stream);
  return found == family.streams.end() ? nullptr : found->second;
}

CnpError DeviceRuntime::create_stream(uint32_t flags, uint64_t* stream) {
  if (grid_ == nullptr || flags != kStreamFlags) return CnpError::kInvalidValue;
  *stream = next_handle();
  GridFamily& family = grid_->family();
  std::lock_guard<std::mutex> lock(family.mutex);
  family.streams.emplace(*stream, open_queue());
  return CnpError::kSuccess;
}

CnpError DeviceRuntime::destroy_stream(uint64_t stream) {
  if (grid_ == nullptr) return CnpError::kInvalidValue;
  GridFamily& family = grid_->family();
  std::lock_guard<std::mutex> lock(family.mutex);
  return family.streams.erase(stream) != 0 ? CnpError::kSuccess : CnpError::kInvalidValue;
}

CnpError DeviceRuntime::create_event(uint32_t flags, uint64_t* event) {
  if (host() == nullptr || flags != kEventFlags) return CnpError::kInvalidValue;
  std::atomic<uint32_t>& events = grid_->channel->device_events;
  if (events.fetch_add(1, std::memory_order_relaxed) >= 2 * host()->pending_launches_max()) {
    events.fetch_sub(1, std::memory_order_relaxed);
    return CnpError::kOutOfMemory;
  }
  *event = next_handle();
  GridFamily& family = grid_->family();
  std::lock_guard<std::mutex> lock(family.mutex);
  family.events.emplace(*event, nullptr);
  return CnpError::kSuccess;
}

CnpError DeviceRuntime::destroy_event(uint64_t event) {
  if (grid_ == nullptr) return CnpError::kInvalidValue;
  GridFamily& family = grid_->family();
  std::lock_guard<std::mutex> lock(family.mutex);
  if (family.events.erase(event) == 0) return CnpError::kInvalidValue;
  grid_->channel->device_events.fetch_sub(1, std::memory_order_relaxed);
  return CnpError::kSuccess;
}

CnpError DeviceRuntime::record(uint32_t thread, uint64_t event, uint64_t stream) {
  const std::shared_ptr<StreamQueue> queue = queue_of(thread, stream);
  if (queue == nullptr) return CnpError::kInvalidValue;
  auto point = std::make_shared<EventPoint>();
  GridFamily& family = grid_->family();
  {
    std::lock_guard<std::mutex> lock(family.mutex);
    if (family.events.count(event) == 0) return CnpError::kInvalidValue;
  }
  auto command = std::make_unique<Command>();
  command->record = point;
  grid_->management->submit_child(*grid_, queue, std::move(command));
  // Only now: another block's wait for it in this stream must come behind the record.
  std::lock_guard<std::mutex> lock(family.mutex);
  if (const auto found = family.events.find(event); found != family.events.end())
    found->second = std::move(point);
  return CnpError::kSuccess;
}

CnpError DeviceRuntime::wait(uint32_t thread, uint64_t stream, uint64_t event) {
  const std::shared_ptr<StreamQueue> queue = queue_of(thread, stream);
  if (queue == nullptr) return CnpError::kInvalidValue;
  std::shared_ptr<EventPoint> point;
  GridFamily& family = grid_->family();
  {
    std::lock_guard<std::mutex> lock(family.mutex);
    const auto found = family.events.find(event);
    if (found == family.events.end()) return CnpError::kInvalidValue;
    point = found->second;
  }
  if (point == nullptr || point->reached.load(std::memory_order_acquire) != 0)
    return CnpError::kSuccess;
  auto command = std::make_unique<Command>();
  command->waits.push_back(std::move(point));
  grid_->management->submit_child(*grid_, queue, std::move(command));
  return CnpError::kSuccess;
}

}  // namespace vgpu::softgpu
