// What kernels print: the driver writes it to this process's standard output and error, from where
// it goes to the guest. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_OUTPUT_H_
#define VGPU_SERVER_OUTPUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>

#include "base/status.h"
#include "base/unique_fd.h"

namespace vgpu::server {

// What waits for a guest that does not fetch it; then the oldest is lost.
inline constexpr uint64_t kOutputBytesMax = uint64_t{64} << 20;
// How much of the last words of a process is kept.
inline constexpr size_t kSpillBytesMax = 2048;

// Standard output and error of the process, kept in memory files: whoever writes there never waits.
// Thread-safe. A process without one (guest and driver share it) does nothing here.
class Output {
 public:
  // Takes both descriptors of this process over. Once; before other threads exist. Standard input
  // is left alone; what was standard error is returned in *log, or stays when that is null.
  Status take_over();
  // Called with the number of bytes ever written, both kinds together, when there are more.
  void set_publish(std::function<void(uint64_t)> publish) { publish_ = std::move(publish); }

  // After the driver may have written: tells the guest.
  void publish();
  // The next bytes of one kind. Their number.
  size_t fetch(bool error, std::span<std::byte> into);
  // How many bytes were fetched or lost, both kinds together.
  uint64_t passed();

  // For a process that dies: the end of what stands on standard error and was not fetched goes to
  // `descriptor`, as plain text. Async-signal-safe; nothing is fetched by it.
  void spill(int descriptor) const;

 private:
  struct File {
    UniqueFd fd;
    std::atomic<uint64_t> read{0};  // up to here it was fetched or lost
    uint64_t freed = 0;             // up to here the memory is given back
    uint64_t end() const;
    void pass(uint64_t position);
  };

  std::mutex mutex_;
  File files_[2];
  std::function<void(uint64_t)> publish_;
  std::atomic<bool> active_{false};
};

// Standard output and error of this process go nowhere. Before other threads exist.
Status drop_output();

// The process's own.
Output& process_output();
// When the process aborts, or a library ends it by exit(), its last words go to `descriptor`. Once,
// before other threads exist.
void spill_output_at_death(int descriptor);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_OUTPUT_H_
