// Turns on one engine of one device: who may give it work now, and how much, decided from what
// clients say of themselves. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SCHEDULER_TURNS_H_
#define VGPU_SCHEDULER_TURNS_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "scheduler/policy.h"

namespace vgpu::scheduler {

// Of an allowance: as much as the client likes.
inline constexpr uint64_t kOpen = UINT64_MAX;

struct TurnLimits {
  uint64_t quantum_ns = 2'000'000;  // device time of one turn
  // A turn whose work is not past no longer keeps others out when nothing has moved for so much
  // real time: its client is suspended, or lies, or its kernel waits for something. Four times as
  // long as the piece is said to be, when that is more; none is believed to be longer than this.
  uint64_t turn_max_ns = 100'000'000;
  // The same when so much device time has gone into it, or four times what the piece is said to be.
  uint64_t overrun_ns = 20'000'000;
  // Real time for which a client that pauses keeps what is left of its turn: who waits for each
  // kernel before it launches the next is not sent to the end of the line every time.
  uint64_t pause_ns = 5'000'000;
  // Real time for which a client that does nothing keeps a turn; then it loses what is left of it.
  uint64_t idle_ns = 500'000;
  // How often an engine is looked at while somebody waits, in real time.
  uint64_t look_ns = 500'000;
  // How busy it is means nothing when nobody has waited for so long; and after so long again and
  // again what was concluded from it is forgotten bit by bit: who then come all at once get no more
  // turns than at any other time.
  uint64_t wait_counts_ns = 4'000'000;
  uint64_t forget_ns = 20'000'000;
  bool one_piece = false;  // a turn is one piece of work, however long: plain round robin
};

// What a client says of itself. Sums since it began, in nanoseconds of device time; nothing here is
// believed further than that it may harm the client itself.
struct TurnReport {
  uint64_t admitted = 0;   // given to the device, by estimate
  uint64_t completed = 0;  // of these: past
  uint64_t measured = 0;   // device time really used
  uint64_t wanted = 0;     // estimate of the piece that waits for a turn; 0: none does

  bool idle() const { return wanted == 0 && admitted <= completed; }
  bool operator==(const TurnReport&) const = default;
};

// A client that wants an engine which nobody else wants has it without turns. As soon as two want
// it, all get it in turns of a quantum, in the order of the policy; a client may have its next turn
// while the work of the last one still runs, so the engine does not fall idle between turns. A
// client with a cap always takes turns. Not thread-safe. Times: nanoseconds of any clock that does
// not run backwards.
class Turns {
 public:
  Turns(std::unique_ptr<Policy> policy, Engine engine, const TurnLimits& limits = {})
      : policy_(std::move(policy)), engine_(engine), limits_(limits) {}

  // A client that is there already, with work that it has admitted before, starts from its report.
  void add(uint64_t client, const Share& share, const TurnReport& report, uint64_t now);
  void remove(uint64_t client, uint64_t now);
  // Counts from the next turn on.
  void set_share(uint64_t client, const Share& share, uint64_t now);

  void report(uint64_t client, const TurnReport& report, uint64_t now);
  // Ends and gives turns. What has changed is in allowance().
  void round(uint64_t now);
  // When the next round is due although nobody says anything; kNever: at no time.
  uint64_t next_round(uint64_t now) const;

  // Up to which sum of `admitted` a client may begin work; a piece may pass the end.
  uint64_t allowance(uint64_t client) const;
  // The sum of `completed` at which its oldest turn ends; kOpen: it has none.
  uint64_t turn_end(uint64_t client) const;
  // Whether a client waits because of its cap, or was last kept waiting by it.
  bool throttled(uint64_t client) const;

 private:
  struct Turn {
    Work work;
    uint64_t ends_at;  // of `completed`
    uint64_t began;
    uint64_t admitted;  // when it began
  };
  struct Client {
    Share share;
    TurnReport last;
    uint64_t allowance = 0;
    std::deque<Turn> turns;
    uint64_t used = 0;      // measured, and not charged yet
    uint64_t prepaid = 0;   // charged for holding a turn, and not used yet
    uint64_t room = 0;      // device time that it can have used at most and has not told of
    uint64_t heard = 0;     // when that was reckoned
    uint64_t moved = 0;     // when it last used or ended something
    uint64_t given_up = 0;  // of `completed`: what is up to there belongs to turns that were late
    uint64_t active_until = 0;  // it counts as one that wants the engine
    bool offered = false;
    bool throttled = false;
    bool asleep = false;  // it has let a whole turn go by, and said nothing since
    uint64_t past() const { return std::max(last.completed, given_up); }
    uint64_t in_flight() const { return last.admitted > past() ? last.admitted - past() : 0; }
    bool idle() const { return last.wanted == 0 && in_flight() == 0; }
    bool lacks_credit() const { return last.wanted != 0 && last.admitted >= allowance; }
  };

  void believe(Client* client, const TurnReport& report, uint64_t now);
  void move(uint64_t id, Client* client, uint64_t now);
  bool contends(const Client& client, uint64_t now) const;
  uint64_t late_at(const Client& client) const;
  bool is_late(const Client& client, uint64_t now) const;
  void end_turns(uint64_t id, Client* client, uint64_t now);
  void end_turn(Client* client, uint64_t now);
  uint64_t idle_until(const Client& client) const;
  void look(uint64_t now);
  void settle(uint64_t id, Client* client, uint64_t now);
  void open_or_close(uint64_t now);
  bool offer(uint64_t id, Client* client, uint64_t now);

  std::unique_ptr<Policy> policy_;
  const Engine engine_;
  const TurnLimits limits_;
  std::map<uint64_t, Client> clients_;
  uint64_t open_ = 0;  // who has the engine without turns; 0: nobody
  uint64_t sequence_ = 0;
  uint64_t looked_at_ = 0, looks_ = 0;
  uint64_t waited_at_ = 0;  // when somebody was last seen to wait
  uint64_t forgot_at_ = 0;
  uint32_t busy_ = kPermille;  // how often there was work under way, as a moving average
};

}  // namespace vgpu::scheduler

#endif  // VGPU_SCHEDULER_TURNS_H_
