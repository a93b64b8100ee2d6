// Work in a stream's order that another server has a part in: copies through this process, and
// waits for others' events.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_ROUTER_TRANSFERS_H_
#define VGPU_ROUTER_TRANSFERS_H_

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "router/server.h"

namespace vgpu::router {

// A stream that waits for a word in its own server's memory, which this process raises:
//
//   stream     … work │ host function │ wait until word >= n │ later work …
//   thread                   └─► copies, then word = n ──┘
//
// The thread is one for all; it only ever waits for streams of its own, so no order of calls makes
// it wait for itself. The words are raised in the order in which the stream waits for them.
// Thread-safe. Lasts as long as the process.
class Transfers {
 public:
  // What the thread does when the stream is there. Its result is told where the program waits for
  // the stream or its context.
  using Work = std::function<CUresult()>;

  // In `stream` of `server`, which has a context current: `work`, behind what is in it and before
  // what comes. Returns at once.
  CUresult submit(Server& server, CUstream stream, Work work);
  // `stream` of `server` waits for what `event` of `other` stands for now. Both have a context
  // current.
  CUresult wait_for(Server& server, CUstream stream, Server& other, CUevent event);
  // Whether the thread has, or will have, anything to do.
  bool busy() const { return outstanding_.load(std::memory_order_relaxed) != 0; }
  // `result` of a call that has waited for work of the context, or what has failed before it.
  CUresult told(const Server& server, CUcontext context, CUresult result);
  CUresult told(Server& server, CUstream stream, CUresult result);
  // A stream, or a context with all that was in its streams, has ended.
  void forget(const Server& server, CUstream stream);
  void forget(const Server& server, CUcontext context);

  // A stream that nothing else waits in, of a context's; for a while.
  CUresult borrow(Server& server, CUcontext context, CUstream* stream);
  void give_back(const Server& server, CUcontext context, CUstream stream);

 private:
  using ContextKey = std::pair<uint32_t, CUcontext>;
  using StreamKey = std::tuple<uint32_t, CUcontext, CUstream, const void*>;

  // A stream with such work, or one that has taken over the word of an ended one.
  struct Line {
    Server* server = nullptr;
    CUcontext context = nullptr;
    CUdeviceptr word = 0;
    std::mutex order;  // held from the taking of a number until the stream waits for it
    // Under Transfers::mutex_.
    uint32_t submitted = 0, released = 0;
    std::set<uint32_t> done;  // beyond `released`
    bool context_ended = false;
  };
  struct Job {
    std::shared_ptr<Line> line;
    uint32_t number = 0;
    Work work;  // empty: a wait
    // Where the host function is that says that it may begin.
    Server* at = nullptr;
    CUcontext at_context = nullptr;
    CUstream helper = nullptr;  // of our own; to be given back then
  };

  CUresult line_of(Server& server, CUstream stream, std::shared_ptr<Line>* out);
  CUresult make_line(Server& server, CUcontext context, std::shared_ptr<Line>* out);
  uint64_t open(Job job);
  // Gives the job a number of its line. It begins when `begins` of job.at is there; from here on
  // `stream`, which is the line's, waits until it is done.
  CUresult enter(Job job, CUstream begins, CUstream stream);
  void start_without(uint64_t job);
  static void begin(void* job);  // the host function
  void begin_locked(std::map<uint64_t, Job>::iterator job);

  bool start();
  void run();
  void finish(Job& job, CUresult result);
  void raise(const Line& line, uint32_t value);
  void look_for_lost();

  std::mutex mutex_;
  std::condition_variable ready_changed_;
  bool started_ = false;
  uint64_t next_job_ = 1;
  std::map<uint64_t, Job> pending_;  // whose host function has not run
  std::deque<Job> ready_;
  std::map<StreamKey, std::shared_ptr<Line>> lines_;
  std::map<ContextKey, std::vector<std::shared_ptr<Line>>> unused_lines_;
  std::map<ContextKey, std::vector<CUstream>> helpers_;
  std::map<ContextKey, CUresult> failures_;
  // Relaxed: hints that there is something in the tables.
  std::atomic<bool> any_lines_{false}, any_failures_{false};
  std::atomic<uint32_t> outstanding_{0};  // jobs
};

Transfers& transfers();

}  // namespace vgpu::router

#endif  // VGPU_ROUTER_TRANSFERS_H_
