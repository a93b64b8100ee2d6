// The seam between commands and the scheduler: every piece of device work passes here.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_ADMISSION_H_
#define VGPU_SERVER_ADMISSION_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "api/soft_meter.h"
#include "driver_table.h"
#include "scheduler/estimate.h"
#include "scheduler/token_bucket.h"
#include "server/turn_link.h"
#include "server/worker_link.h"

namespace vgpu::server {

// Device time that is taken for what has not been measured yet, in nanoseconds. Of a launch nothing
// is known: it is taken for what the last pieces were, the first one for a long one, so that none
// is let through by the hundred before anybody knows.
inline constexpr uint64_t kUnknownCost = 1;
inline constexpr uint64_t kFirstCost = 1'000'000;
// A launch where nobody measures: little enough that no turn ends because of a number that was made
// up.
inline constexpr uint64_t kUnmeteredCost = 10'000;
inline constexpr uint64_t copy_cost(uint64_t bytes) { return 1'000 + bytes / 10; }
// Device time of a guest that may be with the driver at once on one engine, or two pieces if those
// take longer: a queue that keeps the device busy, but does not keep others waiting.
inline constexpr uint64_t kAheadNs = 4'000'000;
// Without any sign of vgpud for so long work that waits for a turn goes on until there is one
// again: it hangs.
inline constexpr uint64_t kSilenceNs = 1'000'000'000;
// When nothing of what is with the driver ends for so long, and four times what it should take, as
// much again may go there: it may wait for what is held back (a host function, a value in memory).
inline constexpr uint64_t kStuckNs = 200'000'000;

// Sessions of one process whose work the driver tells apart; a session that is alone there.
inline constexpr uint32_t kPlacesMax = 64;
inline constexpr uint32_t kAlone = kPlacesMax;

// One piece of work for an engine of a device.
struct DeviceWork {
  uint64_t cost_ns = 0;  // for a kind that has not been measured; 0: it is no work of a device
  uint64_t kind = 0;     // pieces of one kind take about as long
  scheduler::Engine engine = scheduler::Engine::kCompute;
};
inline DeviceWork copy_work(scheduler::Engine engine, uint64_t bytes) {
  // Sizes within a factor of two are of one kind; the names are nobody else's.
  const auto size = static_cast<uint64_t>(64 - __builtin_clzll(bytes | 1));
  return {copy_cost(bytes), 0xc0de'0000 + 64 * static_cast<uint64_t>(engine) + size, engine};
}

// Lets work of one session pass in its turn. Inside its turn, or when nobody else wants the engine,
// a piece costs some loads and an addition; it waits only on a thread that may. Without a link (one
// guest in its own process) all passes. Thread-safe.
class Admission {
 public:
  // What an admitted piece must be carried out with.
  struct Ticket {
    uint64_t kind = 0, note = 0;
  };

  // `link` null: nobody shares. `driver` meters work itself (the software GPU) or does not.
  // `late_ns` not 0: every piece waits for so long, as if for its turn; for tests. `place`: among
  // the sessions of this process, each its own; when it ends nothing of it is with the driver.
  Admission(const DriverTable& driver, TurnLink* link, uint64_t late_ns = 0,
            uint32_t place = kAlone);
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;
  ~Admission();

  // False: it must wait for its turn.
  bool try_admit(uint32_t device, const DeviceWork& work, Ticket* ticket) {
    if (link_ == nullptr || work.cost_ns == 0) return late_ns_ == 0 || work.cost_ns == 0;
    Place& place = places_[device][static_cast<uint32_t>(work.engine)];
    TurnSlot* const slot = link_->slot(device, static_cast<uint32_t>(work.engine));
    const uint64_t cost = cost_of(work);
    // relaxed: only threads of this process write it, and an order between them is not needed.
    const uint64_t admitted = slot->admitted.load(std::memory_order_relaxed);
    const uint64_t allowance = link_->grant(device, static_cast<uint32_t>(work.engine))
                                   .allowance.load(std::memory_order_acquire);
    if (admitted >= allowance && !is_without_account()) return false;
    if (admitted + cost > place.ahead.load(std::memory_order_relaxed)) [[unlikely]] {
      if (!has_room(&place, *slot, cost)) return false;
    }
    take(slot, device, work, cost, ticket);
    return true;
  }
  // Waits for it. Not for the consumer.
  void wait(uint32_t device, const DeviceWork& work, Ticket* ticket);
  // Whatever waits passes, and nothing waits any more.
  void end();
  // True: the driver ends kernels that run for longer, from the first launch on, with
  // CUDA_ERROR_LAUNCH_TIMEOUT in their context. Before that.
  bool limit_kernels(uint64_t ms);
  // Whether it could.
  bool driver_limits_kernels() const { return meter_ != nullptr; }

  // Calls `call()`, which gives the piece to the driver.
  template <typename Call>
  CUresult carry_out(const Ticket& ticket, Call call) {
    if (ticket.note == 0) return call();
    if (meter_ == nullptr) {
      const CUresult result = call();
      done(ticket.kind, ticket.note, 0);
      return result;
    }
    std::pair<Call*, CUresult> both(&call, CUDA_SUCCESS);
    meter_->piece(
        ticket.kind, ticket.note,
        [](void* argument) {
          auto* const to = static_cast<std::pair<Call*, CUresult>*>(argument);
          to->second = (*to->first)();
        },
        &both);
    return both.second;
  }

  // Where device time used is added, and time waited, and what of it because of the cap: figures
  // for people. Borrowed; null: nobody looks.
  void publish_to(WorkerPage* page) { page_ = page; }

 private:
  // How long one wait is for what, and since when.
  struct Wait {
    uint64_t began = 0;
    uint64_t beat = 0, heard = 0;       // of vgpud's
    uint64_t completed = 0, moved = 0;  // of the work that is with the driver
    uint64_t throttled = 0;
  };
  struct Place {
    // `admitted` up to which there is room for certain; relaxed: it only saves looking.
    std::atomic<uint64_t> ahead{0};
    std::atomic<uint32_t> waiting{0};  // threads in wait()
    // What may be under way by estimate, kAheadNs at most: it grows with work that took what was
    // thought, and begins again with work that took far longer, so that no queue fills with long
    // pieces that were taken for short ones.
    std::atomic<uint32_t> window{0};
    std::atomic<uint64_t> wake_at{0};   // in flight at which they go on
    std::atomic<uint64_t> rung_for{0};  // turn_end that vgpud has been told of
    // Room while `completed` stays at stuck_at: see kStuckNs.
    std::atomic<uint64_t> stuck_room{0}, stuck_at{scheduler::kNever};
    std::mutex mutex;  // guards the bucket
    scheduler::TokenBucket bucket{scheduler::kPermille, 1, 0};
    uint32_t bucket_cap = 0;
  };
  uint64_t cost_of(const DeviceWork& work) const {
    if (meter_ == nullptr)
      return work.cost_ns == kUnknownCost ? kUnmeteredCost : std::min(work.cost_ns, kCostMax);
    const uint64_t unknown = work.cost_ns == kUnknownCost ? estimates_.typical() : work.cost_ns;
    return std::clamp<uint64_t>(estimates_.estimate(work.kind, unknown), 1, kCostMax);
  }
  // A cap is not kept by numbers that nobody has measured: whoever has one takes no turns then.
  bool is_without_account() const {
    return meter_ == nullptr &&
           link_->board().cap_permille.load(std::memory_order_relaxed) < scheduler::kPermille;
  }
  bool has_room(Place* place, const TurnSlot& slot, uint64_t cost) const;
  void take(TurnSlot* slot, uint32_t device, const DeviceWork& work, uint64_t cost,
            Ticket* ticket) {
    slot->admitted.fetch_add(cost, std::memory_order_relaxed);
    ticket->kind = work.kind;
    ticket->note =
        cost << 16 | place_bits_ | static_cast<uint64_t>(work.engine) << 8 | device | kNoted;
  }
  static uint32_t engine_of(uint64_t note) { return note >> 8 & 0x3; }
  static uint32_t place_of(uint64_t note) { return note >> 10 & (kPlacesMax - 1); }
  // Hooks of a driver that has work of several sessions.
  class Places;
  static Places& places();
  bool within_cap(Place* place, uint64_t cost);
  void correct_cap(Place* place, uint64_t cost, uint64_t ns);
  bool pass(uint32_t device, const DeviceWork& work, Ticket* ticket);
  // Nobody gives turns: there is no vgpud, or it has not moved for a while.
  bool unattended() const {
    return link_->alone() || link_->board().beat.load(std::memory_order_relaxed) ==
                                 silent_beat_.load(std::memory_order_relaxed);
  }
  void rest(uint32_t device, const DeviceWork& work, uint32_t word, Wait* wait);
  void look_for_silence(bool asked, uint64_t now, Wait* wait);
  void look_for_standstill(Place* place, const TurnSlot& slot, uint64_t now, Wait* wait);
  void count(const Wait& wait);
  void learn(Place* place, uint64_t kind, uint64_t cost, uint64_t ns);
  bool lacks_credit(uint32_t device, uint32_t engine) const;
  void leave(Place* place, TurnSlot* slot);
  void used(uint64_t note, uint64_t ns);
  void done(uint64_t kind, uint64_t note, uint64_t ns);

  static constexpr uint64_t kCostMax = (1ull << 47) - 1;  // what a note has room for: some days
  static constexpr uint64_t kNoted = 0x80;                // so that no note is 0
  static_assert(protocol::kDevicesMax <= kNoted && scheduler::kEngines <= 4);

  const SoftMeterTable* const meter_;
  TurnLink* const link_;
  const uint64_t late_ns_;
  const uint32_t place_;
  const uint64_t place_bits_;  // in a note
  scheduler::Estimates estimates_{kFirstCost};
  std::array<std::array<Place, scheduler::kEngines>, protocol::kDevicesMax> places_;
  std::atomic<bool> ended_{false};
  std::atomic<uint64_t> silent_beat_{scheduler::kNever};  // at which vgpud hangs
  WorkerPage* page_ = nullptr;
};

// The same as limit_kernels() for all sessions of a process. Before the first launch.
void limit_all_kernels(const DriverTable& driver, uint64_t ms);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_ADMISSION_H_
