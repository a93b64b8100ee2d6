// Telling the guest, hearing that it is through, and writing the words that streams wait for.
// SPDX-License-Identifier: Apache-2.0
#include "server/host_calls.h"

#include <utility>

namespace vgpu::server {
namespace {

constexpr size_t kBlockBytes = 4096;
constexpr size_t kWordBytes = 8;  // apart, so that drivers may read eight bytes

// release: the device's work behind the point sees what the function has written.
void write_word(const HostPoint& point, uint32_t value) {
  __atomic_store_n(point.word, value, __ATOMIC_RELEASE);
}

}  // namespace

// Without the lock: the driver may wait for its own threads, which may be in post(). The memory is
// ours, so it outlives whichever context it is registered in.
CUresult HostCalls::grow(const DriverTable& driver, std::vector<HostPoint*>* into) {
  if (driver.cuMemHostRegister_v2 == nullptr || driver.cuMemHostGetDevicePointer_v2 == nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;
  Result<Mapping> mapped = Mapping::map_private(kBlockBytes);
  if (!mapped.ok()) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const block = mapped->data();
  CUdeviceptr address = 0;
  CUresult result = driver.cuMemHostRegister_v2(
      block, kBlockBytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  if (result != CUDA_SUCCESS) return result;
  result = driver.cuMemHostGetDevicePointer_v2(&address, block, 0);
  if (result != CUDA_SUCCESS) {
    (void)driver.cuMemHostUnregister(block);
    return result;
  }
  std::lock_guard lock(mutex_);
  blocks_.push_back(std::move(mapped).value());
  for (size_t offset = 0; offset < kBlockBytes; offset += kWordBytes) {
    HostPoint& point = points_.emplace_back();
    point.calls = this;
    point.word = reinterpret_cast<uint32_t*>(static_cast<char*>(block) + offset);
    point.address = address + offset;
    write_word(point, 0);
    into->push_back(&point);
  }
  return CUDA_SUCCESS;
}

// The word of a single call is used again as soon as the function is over: the next value is
// higher, so the device's wait for the earlier one ends all the same. Words that fall back to 0 are
// kept apart from those.
CUresult HostCalls::take(const DriverTable& driver, uint64_t call, const Context* context,
                         bool repeated, HostPoint** taken) {
  std::vector<HostPoint*>& from = repeated ? free_repeated_ : free_;
  std::unique_lock lock(mutex_);
  if (from.empty()) {
    lock.unlock();
    const CUresult result = grow(driver, &from);
    if (result != CUDA_SUCCESS) return result;
    lock.lock();
  }
  HostPoint* point = from.back();
  from.pop_back();
  point->call = call;
  point->context = context;
  point->repeated = repeated;
  point->given = false;
  point->value = repeated ? 1 : __atomic_load_n(point->word, __ATOMIC_RELAXED) + 1;
  point->state = HostPoint::State::kPlaced;
  *taken = point;
  return CUDA_SUCCESS;
}

bool HostCalls::needs_memory(bool repeated) {
  std::lock_guard lock(mutex_);
  return (repeated ? free_repeated_ : free_).empty();
}

size_t HostCalls::waiting() {
  std::lock_guard lock(mutex_);
  return waiting_.size();
}

void HostCalls::tell(uint64_t call, CUresult status) {
  HostPoint* point = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (free_told_.empty()) {
      point = &points_.emplace_back();
      point->calls = this;
      point->word = &point->unseen;
    } else {
      point = free_told_.back();
      free_told_.pop_back();
    }
    point->call = call;
  }
  post(point, status);
}

void HostCalls::free(HostPoint* point) {
  point->state = HostPoint::State::kFree;
  point->context = nullptr;
  (point->address == 0 ? free_told_ : point->repeated ? free_repeated_ : free_).push_back(point);
}

void HostCalls::give(HostPoint* point) {
  std::lock_guard lock(mutex_);
  point->given = true;  // one that the guest has goes when it is finished
  if (point->state == HostPoint::State::kPlaced) free(point);
}

void HostCalls::give_all_of(const Context* context) {
  std::lock_guard lock(mutex_);
  for (HostPoint& point : points_) {
    if (point.context != context || point.repeated) continue;  // graphs give theirs themselves
    point.given = true;
    if (point.state == HostPoint::State::kPlaced) free(&point);
  }
}

CUresult HostCalls::place(const DriverTable& driver, CUstream stream, HostPoint* point, bool told) {
  // Once the driver has it, it may be reached, finished and taken for another place at any moment.
  const CUdeviceptr address = point->address;
  const uint32_t value = point->value;
  const CUresult result = told && driver.cuStreamAddCallback != nullptr
                              ? driver.cuStreamAddCallback(stream, reached_told, point, 0)
                              : driver.cuLaunchHostFunc(stream, reached, point);
  if (result != CUDA_SUCCESS) {
    // The context broke after the guest had been told that its callback will be called.
    if (told) {
      post(point, result);
    } else {
      give(point);
    }
    return result;
  }
  return driver.cuStreamWaitValue32_v2(stream, address, value, CU_STREAM_WAIT_VALUE_GEQ);
}

void CUDA_CB HostCalls::reached(void* point) {
  auto* reached = static_cast<HostPoint*>(point);
  reached->calls->post(reached, CUDA_SUCCESS);
}

void CUDA_CB HostCalls::reached_told(CUstream, CUresult status, void* point) {
  auto* reached = static_cast<HostPoint*>(point);
  reached->calls->before_callback_();
  reached->calls->post(reached, status);
}

void HostCalls::post(HostPoint* point, CUresult status) {
  std::lock_guard lock(mutex_);
  if (point->repeated) write_word(*point, 0);
  point->state = HostPoint::State::kPosted;
  if (stopping_) return finish(point);
  if (waiting_.empty() && writer_->post({point->call, status})) {
    posted_.push_back(point);
  } else {
    waiting_.push_back({point, status});
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  posted_changed_.notify_one();
}

void HostCalls::finish(HostPoint* point) {
  write_word(*point, point->value);
  point->state = HostPoint::State::kPlaced;
  if (point->given || !point->repeated) free(point);
}

void HostCalls::work() {
  std::unique_lock lock(mutex_);
  uint64_t seen = 0, finished = 0;
  while (true) {
    posted_changed_.wait(lock, [this] { return stopping_ || !posted_.empty(); });
    if (stopping_) return;
    lock.unlock();
    const bool alive = writer_->wait_finished(&finished) == protocol::WaitResult::kReady;
    if (!alive && writer_->broken()) broken_();
    lock.lock();
    if (!alive) return;
    for (; seen != finished; ++seen) {
      finish(posted_.front());
      posted_.pop_front();
    }
    while (!waiting_.empty() &&
           writer_->post({waiting_.front().point->call, waiting_.front().status})) {
      posted_.push_back(waiting_.front().point);
      waiting_.pop_front();
    }
  }
}

void HostCalls::stop() {
  std::thread thread;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    thread.swap(thread_);
    posted_changed_.notify_all();
  }
  writer_->mark_dead();
  if (thread.joinable()) thread.join();
  std::lock_guard lock(mutex_);
  for (HostPoint* point : posted_) finish(point);
  for (const Waiting& each : waiting_) finish(each.point);
  posted_.clear();
  waiting_.clear();
}

void HostCalls::release_all(const DriverTable& driver) {
  std::lock_guard lock(mutex_);
  free_.clear();
  free_repeated_.clear();
  free_told_.clear();
  points_.clear();
  for (const Mapping& block : blocks_) (void)driver.cuMemHostUnregister(block.data());
  blocks_.clear();
}

}  // namespace vgpu::server
