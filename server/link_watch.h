// Connections to other workers on which nothing is said any more but that they end.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_LINK_WATCH_H_
#define VGPU_SERVER_LINK_WATCH_H_

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "base/unique_fd.h"

namespace vgpu::server {

// Thread-safe. One thread for all, from the first add() on until the process ends.
class LinkWatch {
 public:
  // Calls `gone` once, on the watching thread, when the other end is closed. A borrowed descriptor
  // stays open until then, or until remove(); an owned one is closed then.
  void add(int descriptor, std::function<void()> gone);
  void add(UniqueFd descriptor, std::function<void()> gone);
  void remove(int descriptor);

 private:
  struct Link {
    std::function<void()> gone;
    UniqueFd owned;
  };
  void insert(int descriptor, Link link);
  void run();
  void wake();

  std::mutex mutex_;
  std::map<int, Link> links_;
  UniqueFd wake_;  // invalid when the system gives none
  bool running_ = false;
};

// The process' one.
LinkWatch& link_watch();

}  // namespace vgpu::server

#endif  // VGPU_SERVER_LINK_WATCH_H_
