// Life of a context.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/context_object.h"
#include "softgpu/api/capture_hooks.h"

#include <algorithm>

#include "api/cudart/context_storage.h"
#include "api/graph/capture.h"
#include "softgpu/api/driver.h"

namespace vgpu::softgpu {
namespace {

struct LimitDefault {
  CUlimit limit;
  size_t value;
};
constexpr LimitDefault kLimitDefaults[] = {
    {CU_LIMIT_STACK_SIZE, 1024},
    {CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20},
    {CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20},
    {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
    {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 128},
    {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0},
};

// A number of the calling thread that is never used again. Its default streams end with it.
struct ThreadNumber {
  uint64_t number = 0;
  ~ThreadNumber() {
    Driver& driver = Driver::instance();
    if (number == 0 || driver.ready() != CUDA_SUCCESS) return;
    driver.contexts.for_each([this](Context& context) { context.forget_thread(number); });
  }
};

uint64_t thread_number() {
  static std::atomic<uint64_t> next{1};
  static thread_local ThreadNumber mine;
  if (mine.number == 0) mine.number = next.fetch_add(1, std::memory_order_relaxed);
  return mine.number;
}

uint64_t next_stream_id() {
  static std::atomic<uint64_t> next{16};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

ContextStack& context_stack() {
  static thread_local ContextStack stack;
  return stack;
}

Context::Context(Device* device, bool is_primary, uint64_t number)
    : primary(is_primary), id(number), device_(device) {}

void Context::open(unsigned context_flags) {
  auto channel = std::make_shared<Channel>();
  auto legacy = std::make_shared<Stream>();
  legacy->context = this;
  legacy->channel = channel;
  legacy->queue = device_->management().open_queue(channel.get(), true, true, kPriorityLeast);
  legacy->id = 1;
  flags.store(context_flags);
  cache_config.store(CU_FUNC_CACHE_PREFER_NONE);
  for (const LimitDefault& limit : kLimitDefaults) limits[limit.limit].store(limit.value);
  output_.set_limits(limits[CU_LIMIT_PRINTF_FIFO_SIZE], limits[CU_LIMIT_MALLOC_HEAP_SIZE]);
  std::lock_guard<std::mutex> lock(mutex_);
  channel_ = std::move(channel);
  legacy_ = std::move(legacy);
  life.fetch_add(1);
  alive_.store(true, std::memory_order_release);
}

void Context::close() {
  if (!alive_.exchange(false)) return;
  cudart::run_context_destructors(handle);
  graph::forget_context(handle);
  if (primary) green::forget_context(handle);
  std::shared_ptr<Channel> channel;
  std::vector<std::shared_ptr<Stream>> streams;
  std::vector<std::shared_ptr<Module>> modules;
  std::map<uint64_t, std::shared_ptr<Stream>> per_thread;
  std::shared_ptr<Stream> legacy;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    channel = channel_;
    streams.swap(streams_);
    modules.swap(modules_);
    per_thread.swap(per_thread_);
    legacy.swap(legacy_);
    peers_.clear();
    later_frees_.clear();  // it goes with all other memory
    gathering_.reset();
    gates_.clear();
  }
  // What was submitted runs to its end, and what it prints is shown; what other threads still
  // submit completes without running.
  device_->management().wait_for_all(*channel);
  device_->management().fail(channel.get(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  device_->management().wait_for_all(*channel);
  device_->management().close_channel(channel.get());
  output_.flush();
  Driver& driver = Driver::instance();
  driver.contexts.for_each([this](Context& each) { (void)each.drop_peer(id); });
  for (const auto& stream : streams) driver.streams.remove(stream->handle);
  driver.events.remove_if([this](const Event& event) { return event.context == this; });
  for (const auto& module : modules) module->unload();
  driver.libraries.for_each([this](Library& each) { each.forget_context(*this); });
  output_.clear();
  driver.textures.forget_context(*this);
  forget_arrays(*this);
  for (const uint64_t address : device_->memory().managed_of(id)) driver.managed.remove(address);
  device_->memory().free_owned_by(id);
  // Memory of pools is of no context; without any the device starts afresh.
  const auto is_alive = [this](const Context& other) {
    return other.device_ == device_ && other.alive();
  };
  if (driver.contexts.find_if(is_alive) == nullptr)
    driver.pools()->forget_memory(device_->config().ordinal);
}

std::shared_ptr<Channel> Context::channel() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return channel_;
}

std::shared_ptr<Stream> Context::legacy_stream() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return legacy_;
}

std::shared_ptr<Stream> Context::per_thread_stream() {
  const uint64_t thread = thread_number();
  std::lock_guard<std::mutex> lock(mutex_);
  if (channel_ == nullptr) return nullptr;
  std::shared_ptr<Stream>& stream = per_thread_[thread];
  if (stream == nullptr) {
    stream = std::make_shared<Stream>();
    stream->context = this;
    stream->channel = channel_;
    stream->queue = device_->management().open_queue(channel_.get(), true, false, kPriorityLeast);
    stream->id = next_stream_id();
    gate(*stream);
  }
  return stream;
}

void Context::forget_thread(uint64_t thread) {
  std::shared_ptr<Stream> stream;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = per_thread_.find(thread);
    if (found == per_thread_.end()) return;
    stream = std::move(found->second);
    per_thread_.erase(found);
  }
  graph::forget_stream(key_of(*stream));
  device_->management().close_queue(stream->queue);  // what is in it still runs
}

std::vector<std::shared_ptr<Stream>> Context::streams() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return streams_;
}

void Context::add_stream(const std::shared_ptr<Stream>& stream) {
  stream->id = next_stream_id();
  std::lock_guard<std::mutex> lock(mutex_);
  streams_.push_back(stream);
  gate(*stream);
}

void Context::drop_stream(const std::shared_ptr<Stream>& stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::erase(streams_, stream);
}

void Context::add_module(const std::shared_ptr<Module>& module) {
  std::lock_guard<std::mutex> lock(mutex_);
  modules_.push_back(module);
}

void Context::drop_module(const std::shared_ptr<Module>& module) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::erase(modules_, module);
}

bool Context::add_peer(uint64_t peer) {
  std::lock_guard<std::mutex> lock(mutex_);
  return peers_.insert(peer).second;
}

bool Context::drop_peer(uint64_t peer) {
  std::lock_guard<std::mutex> lock(mutex_);
  return peers_.erase(peer) != 0;
}

uint64_t Context::allocate(uint64_t bytes, MemoryKind kind) {
  const uint64_t address = device_->memory().allocate(bytes, kind, id);
  if (address != 0) return address;
  const bool freed = free_what_is_past();
  const bool given = Driver::instance().pools()->give_back(device_->config().ordinal);
  return freed || given ? device_->memory().allocate(bytes, kind, id) : 0;
}

void Context::free_later(uint64_t address) {
  (void)free_what_is_past();
  const std::shared_ptr<Channel> current = channel();
  LaterFree later{address, device_->management().pending(*current)};
  if (later.work.empty()) {
    device_->memory().free(address);
    return;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (alive()) later_frees_.push_back(std::move(later));
}

bool Context::free_what_is_past() {
  std::vector<uint64_t> past;
  std::unique_lock<std::mutex> lock(mutex_);
  std::erase_if(later_frees_, [&past](const LaterFree& each) {
    for (const auto& [queue, ordinal] : each.work) {
      if (queue->completed.load(std::memory_order_acquire) < ordinal) return false;
    }
    past.push_back(each.address);
    return true;
  });
  lock.unlock();
  for (const uint64_t address : past) device_->memory().free(address);
  return !past.empty();
}

CUresult Context::synchronise() {
  const std::shared_ptr<Channel> current = channel();
  device_->management().wait_for_all(*current);
  (void)free_what_is_past();
  output_.flush();
  Driver::instance().pools()->synchronised();
  return current->sticky();
}

CUresult Context::sticky() const {
  const std::shared_ptr<Channel> current = channel();
  return current == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED : current->sticky();
}

}  // namespace vgpu::softgpu
