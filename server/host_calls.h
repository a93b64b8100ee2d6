// Functions of the guest's in its streams: where the device stops, and who lets it go on.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_HOST_CALLS_H_
#define VGPU_SERVER_HOST_CALLS_H_

#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/mapping.h"
#include "driver_table.h"
#include "protocol/ring/host_calls.h"

namespace vgpu::server {

struct Context;
class HostCalls;

// A place in a stream or a graph at which a function of the guest's runs. Two pieces of work make
// it: the driver calls reached(), which only tells the guest; then the device waits for `value` in
// `word`, which is written when the guest has said that the function is over. No thread of the
// driver's ever waits for a guest.
struct HostPoint {
  HostCalls* calls = nullptr;
  uint64_t call = 0;  // the guest's name of the function
  const Context* context = nullptr;
  uint32_t* word = nullptr;  // memory that the driver knows; `address` is the device's view of it
  CUdeviceptr address = 0;   // 0: no device waits
  uint32_t unseen = 0;       // its word then
  uint32_t value = 0;
  bool repeated = false;  // its work runs many times: the word is 0 until the function is over
  bool given = false;     // goes as soon as the guest is through with it
  enum class State : uint8_t { kFree, kPlaced, kPosted } state = State::kFree;
};

// Thread-safe but for take(). Its thread exists once a function was reached, and sleeps while none
// runs.
class HostCalls {
 public:
  // `broken`: the guest has claimed what cannot be. `before_callback`: the driver may have printed
  // something that the guest shall see first. Both from any thread.
  HostCalls(protocol::HostCallWriter* writer, std::function<void()> broken,
            std::function<void()> before_callback)
      : writer_(writer), broken_(std::move(broken)), before_callback_(std::move(before_callback)) {}
  HostCalls(const HostCalls&) = delete;
  HostCalls& operator=(const HostCalls&) = delete;
  ~HostCalls() { stop(); }

  // A point for one call, or, when it is `repeated`, for all calls of a graph's node; that one
  // waits for its value with CU_STREAM_WAIT_VALUE_EQ, others with _GEQ, as the word only rises for
  // them. Some context is current.
  CUresult take(const DriverTable& driver, uint64_t call, const Context* context, bool repeated,
                HostPoint** point);
  // Whether take() asks the driver for memory.
  bool needs_memory(bool repeated);
  // Calls that wait for room in the channel. For streams that is one each; a guest that finishes
  // none can only heap up callbacks of a broken context.
  size_t waiting();
  // Only calls the guest, with an error: no stream waits.
  void tell(uint64_t call, CUresult status);
  // The point will not be reached (again): the driver knows of it no more.
  void give(HostPoint* point);
  // The same for all points for one call of a context that is gone.
  void give_all_of(const Context* context);

  // Puts a point into a stream. `told`: also in a broken context, with its error. Gives the point
  // back when the driver refuses.
  CUresult place(const DriverTable& driver, CUstream stream, HostPoint* point, bool told);

  // What the driver calls, with the HostPoint.
  static void CUDA_CB reached(void* point);
  static void CUDA_CB reached_told(CUstream stream, CUresult status, void* point);

  // The guest is gone: whatever waits, and is reached later, goes on.
  void stop();
  // After stop(): gives the memory back; the device's primary context is current.
  void release_all(const DriverTable& driver);

 private:
  struct Waiting {
    HostPoint* point;
    CUresult status;
  };
  void post(HostPoint* point, CUresult status);
  CUresult grow(const DriverTable& driver, std::vector<HostPoint*>* into);
  void work();
  void finish(HostPoint* point);
  void free(HostPoint* point);

  protocol::HostCallWriter* const writer_;
  const std::function<void()> broken_, before_callback_;
  std::mutex mutex_;
  std::condition_variable posted_changed_;
  std::deque<HostPoint> points_;
  std::vector<HostPoint*> free_, free_repeated_, free_told_;
  std::vector<Mapping> blocks_;
  std::deque<HostPoint*> posted_;  // the guest has them, in this order
  std::deque<Waiting> waiting_;    // there was no room
  std::thread thread_;
  bool stopping_ = false;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_HOST_CALLS_H_
