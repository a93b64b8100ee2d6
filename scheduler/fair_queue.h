// Start-time fair queueing on one engine: classes, weights, caps, a bounded window.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SCHEDULER_FAIR_QUEUE_H_
#define VGPU_SCHEDULER_FAIR_QUEUE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>

#include "scheduler/policy.h"
#include "scheduler/token_bucket.h"

namespace vgpu::scheduler {

struct FairLimits {
  uint32_t window = 2;  // pieces in flight on the engine, of all clients together
  uint32_t urgent = 0;  // beyond these, for a class above all that is in flight
  // Somebody who has had less or is of a higher class, and is not waiting only because he waits for
  // the end of what he has in flight or has just seen it, is waited for: for twice the time that he
  // usually takes to ask again, patience_ns at least, and for hold_ns_max in all; who is of a
  // higher class only while he has work in flight. Not who usually takes longer than kPatienceTimes
  // times patience_ns, and nobody while the engine has time to spare. 0: nobody is waited for.
  // Without that, whoever looks at each result before he asks for more would get turns as the
  // others do, whatever the weights are.
  uint64_t patience_ns = 0, hold_ns_max = 0;
  static constexpr uint64_t kPatienceTimes = 2;
  // How far a client may stay behind its class and keep its place: in device time of its own. More
  // than that would be saved up by those who cannot use their share.
  uint64_t slack_ns = 50'000'000;
  uint32_t minimum_permille = 50;  // of the engine's time, for each class that waits
  uint64_t burst_ns = 20'000'000;  // what a cap or a minimum may save up, in device time
};

// Serves whoever waits and has had least, in proportion to weights, measured in device time.
//
//   virtual time of a client   device time charged / weight; where its next piece starts
//   virtual time of a class    start of the piece that was admitted last; never falls
//
// Who begins to wait starts no earlier than its class stands, or a slack before that if it was not
// away, so that idleness saves nothing up.
// For two clients that wait all the time, service / weight differs by at most l1/w1 + l2/w2, l
// being their longest pieces, and what the window holds of each (Goyal, Vin, Cheng 1996). Not
// thread-safe.
class FairQueue {
 public:
  explicit FairQueue(const FairLimits& limits) : limits_(limits) {}

  // A client that was never named has the default share. Changes count from the next piece.
  void set_share(uint64_t client, const Share& share, uint64_t now);
  void remove(uint64_t client);

  // As Policy's, for this engine's work.
  bool admit(uint64_t client, uint64_t cost, uint64_t now);
  void finish(uint64_t client, uint64_t cost, uint64_t measured, uint64_t now);
  void withdraw(uint64_t client);
  uint64_t retry_at(uint64_t now) const;
  // Device time that a client has used without having been admitted.
  void used(uint64_t client, uint64_t ns, uint64_t now);
  // Whether a client waits because of its cap.
  bool throttled(uint64_t client) const;
  // Nobody waits for a client whose work does not move.
  void set_stalled(uint64_t client, bool stalled);
  // For so many thousandths of the time the engine had work, of late and while somebody waited;
  // told now and then. When that is too little nobody is held back, and each time there is room for
  // one piece more, for one of each client at most; when it is enough for one less, down to the
  // window.
  void set_busy(uint32_t permille);
  // One piece of that room goes. False: there is none.
  bool forget_busy();

  uint32_t in_flight() const { return in_flight_; }
  // Device time charged to a client, what is in flight with its estimate; nanoseconds.
  int64_t charged_ns(uint64_t client) const;

 private:
  struct Client {
    Client(const Share& asked, const FairLimits& limits, uint64_t now);
    bool capped() const { return share.cap_permille < kPermille; }
    bool under_cap() const { return !capped() || bucket.tokens() > 0; }

    Share share;
    TokenBucket bucket;
    int64_t virtual_start = 0;
    int64_t charged = 0;
    uint64_t head_cost = 0;  // estimate of what waits
    uint32_t in_flight = 0;
    std::deque<bool>
        owed;  // of what is in flight, the oldest first: admitted by its class's minimum
    uint64_t waiting_since = 0, finished_at = 0;
    uint64_t gap = 0;  // usual time from the end of its work until it asks again
    bool waiting = false;
    bool stalled = false;
    bool held = false;  // the cap has kept it back since its last piece
  };
  struct Class {
    Class(const FairLimits& limits, uint64_t now)
        : minimum(limits.minimum_permille, limits.burst_ns, now) {}
    TokenBucket minimum;
    int64_t virtual_time = 0;
    uint32_t waiting = 0, in_flight = 0;
  };

  Client& client_of(uint64_t id, uint64_t now);
  Class& class_of(const Client& client) {
    return classes_[static_cast<uint32_t>(client.share.priority)];
  }
  void begin_waiting(Client* client, uint64_t now);
  void stop_waiting(Client* client);
  void catch_up(Client* client, bool away);
  void charge(Client* client, int64_t ns);
  bool has_room(const Client& client) const;
  void fill(uint64_t now);
  // Who may start now; null: nobody who waits. Looked for once however many are offered.
  Client* next(uint64_t now);
  Client* find_next(uint64_t now);
  Client* first_of(uint32_t priority, uint64_t now);
  bool is_held(const Client& first, uint64_t now) const;
  bool class_lingers(uint32_t priority) const;
  uint64_t patience_for(const Client& client) const;
  bool away(const Client& client, uint64_t now) const {
    return client.in_flight == 0 && now >= client.finished_at + patience_for(client);
  }
  bool asks_soon(const Client& client) const {
    return client.gap <= FairLimits::kPatienceTimes * limits_.patience_ns;
  }
  bool lingers(const Client& client, uint64_t now) const {
    return !client.waiting && !client.stalled && client.under_cap() && asks_soon(client) &&
           !away(client, now);
  }

  FairLimits limits_;
  std::map<uint64_t, Client> clients_;
  std::array<Class, kClasses> classes_{Class{limits_, 0}, Class{limits_, 0}, Class{limits_, 0},
                                       Class{limits_, 0}};
  uint32_t in_flight_ = 0;
  uint32_t extra_ = 0;  // room beyond the window
  bool spare_ = false;
  Client* next_ = nullptr;        // answer of next() ...
  bool next_owed_ = false;        // by its class's minimum
  uint64_t next_as_of_ = kNever;  // ... at this time; kNever: something has changed since
};

}  // namespace vgpu::scheduler

#endif  // VGPU_SCHEDULER_FAIR_QUEUE_H_
