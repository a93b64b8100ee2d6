// vgpud's scheduler: gives the workers turns on the devices' engines, on a thread of its own.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_TURN_KEEPER_H_
#define VGPU_SERVER_TURN_KEEPER_H_

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/mapping.h"
#include "base/unique_fd.h"
#include "scheduler/turns.h"
#include "server/worker_link.h"

namespace vgpu::server {

// kAuto: kFair where the driver tells what work has taken, and kFifo elsewhere.
enum class SchedulerKind : uint8_t { kAuto, kFair, kFifo, kRoundRobin };
// auto, fair, fifo, round-robin. False: none of these.
bool parse_scheduler(const std::string& text, SchedulerKind* kind);

// Shares that are possible: weights and caps from 1, a class that there is.
scheduler::Share valid_share(const scheduler::Share& share);

// Reads what workers say in their pages, decides, and publishes what they may do on their boards. A
// worker that nobody competes with hears nothing of it. With kFifo nobody is ever told to wait: who
// comes first is up to the devices. Thread-safe.
class TurnKeeper {
 public:
  static Result<std::unique_ptr<TurnKeeper>> create(SchedulerKind kind);
  ~TurnKeeper();
  TurnKeeper(const TurnKeeper&) = delete;
  TurnKeeper& operator=(const TurnKeeper&) = delete;

  // What a worker needs to take part.
  struct Papers {
    UniqueFd board, bell;
  };
  // A worker begins to serve a guest, or goes on doing so. `client`: its own number, not 0, which
  // no one else has meanwhile. `page` stays until remove().
  Result<Papers> add(uint64_t client, WorkerPage* page, const WorkerGrants& grants,
                     const scheduler::Share& share);
  void remove(uint64_t client);
  // Effective at once: from the next turn on.
  void set_share(uint64_t client, const scheduler::Share& share);

 private:
  struct Member {
    WorkerPage* page = nullptr;
    WorkerGrants grants;
    scheduler::Share share;
    Mapping board;
    UniqueFd bell;
    // By the guest's devices and engines: nothing has happened that the next round must hear of.
    bool quiet[protocol::kDevicesMax][scheduler::kEngines] = {};
    scheduler::TurnReport last[protocol::kDevicesMax][scheduler::kEngines];
    TurnBoard* shown() const { return reinterpret_cast<TurnBoard*>(board.data()); }
  };
  // One for each engine of each device that is served.
  using Engines = std::array<std::unique_ptr<scheduler::Turns>, scheduler::kEngines>;

  explicit TurnKeeper(SchedulerKind kind) : kind_(kind) {}
  Status start();
  void loop();
  void kick();
  uint64_t round();
  scheduler::Turns& turns(uint32_t device, uint32_t engine);
  std::unique_ptr<scheduler::Policy> make_policy() const;
  static void show_share(Member* member);
  void publish(uint64_t client, Member* member);

  const SchedulerKind kind_;
  UniqueFd epoll_, kick_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // guards all below
  std::map<uint64_t, Member> members_;
  std::map<uint32_t, Engines> devices_;
  uint64_t rounds_ = 0;
  std::thread thread_;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_TURN_KEEPER_H_
