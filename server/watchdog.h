// Notices kernels that run for longer than their guest may have them run.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_WATCHDOG_H_
#define VGPU_SERVER_WATCHDOG_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "protocol/guest_limits.h"
#include "server/objects.h"

namespace vgpu::server {

// Thread-safe. Without a limit it costs a comparison. With one, every launch stands between two
// events: a kernel runs once the first is past and the second is not, and what its stream waited
// for before (events, values in memory, functions of the guest's) does not count. Turns of other
// guests do.
class Watchdog {
 public:
  // `expired` is called once, on a thread of its own.
  Watchdog(const DriverTable* driver, uint64_t limit_ms, std::function<void()> expired)
      : driver_(driver), limit_ms_(limit_ms), expired_(std::move(expired)) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() { stop(); }

  bool on() const { return limit_ms_ != protocol::kUnlimited; }
  // Makes a launch of `kernels` kernels in a stream of `context`, which is current. The launch's
  // result.
  template <typename Call>
  CUresult watch(Context* context, CUstream stream, uint32_t kernels, Call call) {
    if (!on()) [[likely]]
      return call();
    Launch launch;
    launch.context = context;
    launch.limit_ms = limit_ms_ * (kernels > 1 ? kernels : 1);
    launch.begin = record(context, stream);
    const CUresult result = call();
    launch.end = record(context, stream);
    if (result == CUDA_SUCCESS) add(stream, std::move(launch));
    return result;
  }
  // Looks no more, and lets go of what it has of contexts.
  void stop();

 private:
  struct Launch {
    Context* context = nullptr;
    MarkRef begin, end;
    uint64_t limit_ms = 0;
    uint64_t began_ms = 0;  // seen; 0: not yet
  };

  MarkRef record(Context* context, CUstream stream);
  bool past(const Mark& mark) const;
  void add(CUstream stream, Launch launch);
  void run();
  // Whether a launch has run for too long.
  bool look();

  const DriverTable* const driver_;
  const uint64_t limit_ms_;
  const std::function<void()> expired_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<CUstream, std::deque<Launch>> launches_;
  std::thread thread_;
  bool stopping_ = false;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_WATCHDOG_H_
