// Work that blocks, done one piece after another on a thread of its own.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_ERRANDS_H_
#define VGPU_SERVER_ERRANDS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "base/unique_fd.h"

namespace vgpu::server {

// For one thread that must not wait, its owner's. All calls are that thread's.
class Errands {
 public:
  static Result<std::unique_ptr<Errands>> create();
  // Waits for the piece that is under way; those that have not begun are dropped.
  ~Errands();

  // `work` is done on the other thread, after all that was added before. `then` is called by
  // finish() afterwards.
  void add(std::function<void()> work, std::function<void()> then);
  // Readable when finish() has something to call. Borrowed.
  int done_fd() const { return done_fd_.get(); }
  void finish();
  // Nothing is left to do, nor to finish.
  bool idle() const;

 private:
  struct Errand {
    std::function<void()> work, then;
  };
  explicit Errands(UniqueFd done_fd);
  void run();

  UniqueFd done_fd_;
  mutable std::mutex mutex_;
  std::condition_variable wakeup_;
  std::deque<Errand> waiting_, done_;  // guarded by mutex_, as what follows
  bool working_ = false, ending_ = false;
  std::thread thread_;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_ERRANDS_H_
