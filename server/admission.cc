// Waiting for turns, and what the driver says of work that is past.
// SPDX-License-Identifier: Apache-2.0
#include "server/admission.h"

#include <sched.h>

#include <algorithm>
#include <ctime>

#include "base/clock.h"
#include "base/futex.h"
#include "scheduler/turns.h"

namespace vgpu::server {
namespace {

constexpr int64_t kLookNs = 100'000'000;      // between looks whether vgpud is still there
constexpr uint64_t kCapBurstNs = 20'000'000;  // of real time, as vgpud's
constexpr int64_t kCapLookNs = 1'000'000;     // while the worker keeps the account itself

uint64_t in_flight(const TurnSlot& slot) {
  // acquire: partner is done(); what it counted is seen with what it let go on.
  const uint64_t completed = slot.completed.load(std::memory_order_acquire);
  const uint64_t admitted = slot.admitted.load(std::memory_order_relaxed);
  return admitted > completed ? admitted - completed : 0;
}

// Null: the driver does not tell what work has taken.
const SoftMeterTable* find_meter(const DriverTable& driver) {
  const void* table = nullptr;
  if (driver.cuGetExportTable == nullptr ||
      driver.cuGetExportTable(&table, &kSoftMeterId) != CUDA_SUCCESS || table == nullptr) {
    return nullptr;
  }
  const auto* meter = static_cast<const SoftMeterTable*>(table);
  return meter->bytes < sizeof(SoftMeterTable) ? nullptr : meter;
}

bool takes_turns(const TurnLink* link, const SoftMeterTable* meter) {
  if (link == nullptr) return false;
  const TurnMode mode = link->board().mode.load(std::memory_order_relaxed);
  return mode == TurnMode::kAlways || (mode == TurnMode::kWhereMeasured && meter != nullptr);
}

// Work that took far longer than was thought.
bool is_surprise(uint64_t cost, uint64_t ns) { return ns > 2 * cost + 50'000; }

}  // namespace

// Two atomic additions for each call; none of them waits.
class Admission::Places {
 public:
  void enter(uint32_t place, Admission* admission) {
    all_[place].admission.store(admission, std::memory_order_seq_cst);
  }
  // Nobody calls it any more when this returns.
  void leave(uint32_t place) {
    all_[place].admission.store(nullptr, std::memory_order_seq_cst);
    while (all_[place].users.load(std::memory_order_seq_cst) != 0) sched_yield();
  }
  template <typename Call>
  void with(uint64_t note, Call call) {
    Place& place = all_[place_of(note)];
    place.users.fetch_add(1, std::memory_order_seq_cst);
    if (Admission* const found = place.admission.load(std::memory_order_seq_cst); found != nullptr)
      call(found);
    place.users.fetch_sub(1, std::memory_order_seq_cst);
  }

 private:
  struct Place {
    std::atomic<uint32_t> users{0};
    std::atomic<Admission*> admission{nullptr};
  };
  std::array<Place, kPlacesMax> all_;
};

Admission::Places& Admission::places() {
  static Places* const all = new Places;  // NOLINT: threads of the device may be in it to the end
  return *all;
}

Admission::Admission(const DriverTable& driver, TurnLink* link, uint64_t late_ns, uint32_t place)
    : meter_(link == nullptr ? nullptr : find_meter(driver)),
      link_(takes_turns(link, meter_) ? link : nullptr),
      late_ns_(late_ns),
      place_(place),
      place_bits_(place == kAlone ? 0 : uint64_t{place} << 10) {
  if (meter_ == nullptr) return;
  SoftMeterHooks hooks;
  if (place_ != kAlone) {
    places().enter(place_, this);
    hooks.used = [](void*, uint64_t note, uint64_t ns) {
      places().with(note, [&](Admission* self) { self->used(note, ns); });
    };
    hooks.done = [](void*, uint64_t kind, uint64_t note, uint64_t ns) {
      places().with(note, [&](Admission* self) { self->done(kind, note, ns); });
    };
    meter_->start(&hooks);
    return;
  }
  hooks.context = this;
  hooks.used = [](void* self, uint64_t note, uint64_t ns) {
    static_cast<Admission*>(self)->used(note, ns);
  };
  hooks.done = [](void* self, uint64_t kind, uint64_t note, uint64_t ns) {
    static_cast<Admission*>(self)->done(kind, note, ns);
  };
  meter_->start(&hooks);
}

Admission::~Admission() {
  if (meter_ != nullptr && place_ != kAlone) places().leave(place_);
}

void limit_all_kernels(const DriverTable& driver, uint64_t ms) {
  if (const SoftMeterTable* const meter = find_meter(driver); meter != nullptr)
    meter->limit_kernels(ms);
}

bool Admission::limit_kernels(uint64_t ms) {
  if (meter_ == nullptr) return false;
  meter_->limit_kernels(ms);
  return true;
}

// Without a meter nobody knows when work is past: then the bounds of the driver's queues do.
bool Admission::has_room(Place* place, const TurnSlot& slot, uint64_t cost) const {
  if (meter_ == nullptr) return true;
  const uint64_t completed = slot.completed.load(std::memory_order_acquire);
  const uint64_t window = place->window.load(std::memory_order_relaxed);
  place->ahead.store(completed + window, std::memory_order_relaxed);
  // Two pieces of this length at least, but that is looked at for each.
  uint64_t room = std::max<uint64_t>(window, 2 * cost);
  if (completed == place->stuck_at.load(std::memory_order_relaxed))
    room = std::max(room, place->stuck_room.load(std::memory_order_relaxed));
  return in_flight(slot) + cost <= room;
}

void Admission::learn(Place* place, uint64_t kind, uint64_t cost, uint64_t ns) {
  estimates_.measured(kind, std::min(ns, kCostMax));
  // relaxed: what threads lose of each other's is made up for by the next piece.
  const uint64_t window = place->window.load(std::memory_order_relaxed);
  const uint64_t grown =
      is_surprise(cost, ns) ? 0 : std::min(window + std::min(cost, ns), kAheadNs);
  place->window.store(static_cast<uint32_t>(grown), std::memory_order_relaxed);
  if (grown < window) place->ahead.store(0, std::memory_order_relaxed);
}

bool Admission::pass(uint32_t device, const DeviceWork& work, Ticket* ticket) {
  if (try_admit(device, work, ticket)) return true;
  const auto engine = static_cast<uint32_t>(work.engine);
  TurnSlot* const slot = link_->slot(device, engine);
  const uint64_t cost = cost_of(work);
  if (!ended_.load(std::memory_order_relaxed)) {
    Place& place = places_[device][engine];
    if (!unattended() || !has_room(&place, *slot, cost) || !within_cap(&place, cost)) return false;
  }
  take(slot, device, work, cost, ticket);
  return true;
}

// The cap of a worker without vgpud.
bool Admission::within_cap(Place* place, uint64_t cost) {
  const uint32_t cap = link_->board().cap_permille.load(std::memory_order_relaxed);
  if (cap >= scheduler::kPermille) return true;
  const uint64_t now = monotonic_ns();
  std::lock_guard lock(place->mutex);
  if (place->bucket_cap != cap) {
    place->bucket_cap = cap;
    place->bucket = scheduler::TokenBucket(cap, kCapBurstNs * cap / scheduler::kPermille + 1, now);
  }
  place->bucket.fill(now);
  if (place->bucket.tokens() <= 0) return false;
  place->bucket.charge(static_cast<int64_t>(cost));
  return true;
}

void Admission::correct_cap(Place* place, uint64_t cost, uint64_t ns) {
  std::lock_guard lock(place->mutex);
  place->bucket.charge(static_cast<int64_t>(ns) - static_cast<int64_t>(cost));
}

void Admission::wait(uint32_t device, const DeviceWork& work, Ticket* ticket) {
  if (work.cost_ns == 0) return;
  if (late_ns_ != 0) {
    const timespec rest = {0, static_cast<long>(std::min<uint64_t>(late_ns_, 999'999'999))};
    (void)nanosleep(&rest, nullptr);
  }
  if (link_ == nullptr) return;
  if (pass(device, work, ticket)) return;
  const auto engine = static_cast<uint32_t>(work.engine);
  TurnSlot* const slot = link_->slot(device, engine);
  Place& place = places_[device][engine];
  Wait wait;
  wait.began = wait.heard = wait.moved = monotonic_ns();
  place.waiting.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const uint32_t word = slot->word.load(std::memory_order_seq_cst);
    place.wake_at.store(
        std::max<uint64_t>(place.window.load(std::memory_order_relaxed) / 2, cost_of(work)),
        std::memory_order_seq_cst);
    if (pass(device, work, ticket)) break;
    rest(device, work, word, &wait);
  }
  leave(&place, slot);
  count(wait);
}

void Admission::rest(uint32_t device, const DeviceWork& work, uint32_t word, Wait* wait) {
  const auto engine = static_cast<uint32_t>(work.engine);
  TurnSlot* const slot = link_->slot(device, engine);
  Place& place = places_[device][engine];
  const bool asks = lacks_credit(device, engine);
  if (asks) {
    place.wake_at.store(0, std::memory_order_seq_cst);  // vgpud wakes
    slot->wanted.store(cost_of(work), std::memory_order_seq_cst);
    link_->ring();
  }
  const uint64_t before = monotonic_ns();
  futex_wait(&slot->word, word, unattended() ? kCapLookNs : kLookNs);
  const uint64_t now = monotonic_ns();
  if (link_->grant(device, engine).throttled.load(std::memory_order_relaxed) != 0)
    wait->throttled += now - before;
  look_for_silence(asks, now, wait);
  look_for_standstill(&place, *slot, now, wait);
}

void Admission::look_for_silence(bool asked, uint64_t now, Wait* wait) {
  const uint64_t beat = link_->board().beat.load(std::memory_order_relaxed);
  if (!asked || beat != wait->beat || link_->alone()) {
    wait->beat = beat;
    wait->heard = now;
  } else if (now - wait->heard > kSilenceNs) {
    silent_beat_.store(beat, std::memory_order_relaxed);
  }
}

void Admission::look_for_standstill(Place* place, const TurnSlot& slot, uint64_t now, Wait* wait) {
  const uint64_t completed = slot.completed.load(std::memory_order_relaxed);
  const uint64_t with_driver = in_flight(slot);
  if (completed != wait->completed || with_driver == 0) {
    wait->completed = completed;
    wait->moved = now;
  } else if (now - wait->moved > kStuckNs + 4 * with_driver) {
    wait->moved = now;
    place->stuck_room.store(2 * with_driver, std::memory_order_relaxed);
    place->stuck_at.store(completed, std::memory_order_relaxed);
  }
}

void Admission::count(const Wait& wait) {
  if (page_ == nullptr) return;
  const uint64_t waited = monotonic_ns() - wait.began;
  page_->wait_ns.fetch_add(waited, std::memory_order_relaxed);
  page_->throttled_ns.fetch_add(std::min(wait.throttled, waited), std::memory_order_relaxed);
  const auto* const bound =
      std::lower_bound(std::begin(kWaitBoundsNs), std::end(kWaitBoundsNs), waited);
  page_->waits[bound - std::begin(kWaitBoundsNs)].fetch_add(1, std::memory_order_relaxed);
}

bool Admission::lacks_credit(uint32_t device, uint32_t engine) const {
  return link_->slot(device, engine)->admitted.load(std::memory_order_relaxed) >=
         link_->grant(device, engine).allowance.load(std::memory_order_acquire);
}

// What was admitted counts before nothing is wanted: vgpud reads the two the other way round.
void Admission::leave(Place* place, TurnSlot* slot) {
  if (place->waiting.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
  slot->wanted.store(0, std::memory_order_seq_cst);
  if (place->waiting.load(std::memory_order_seq_cst) == 0) return;
  slot->word.fetch_add(1, std::memory_order_seq_cst);  // another says again what it wants
  futex_wake_all(&slot->word);
}

void Admission::end() {
  if (link_ == nullptr) return;
  ended_.store(true, std::memory_order_relaxed);
  for (uint32_t device = 0; device < protocol::kDevicesMax; ++device) {
    for (uint32_t engine = 0; engine < scheduler::kEngines; ++engine) {
      TurnSlot* const slot = link_->slot(device, engine);
      slot->word.fetch_add(1, std::memory_order_seq_cst);
      futex_wake_all(&slot->word);
    }
  }
}

void Admission::used(uint64_t note, uint64_t ns) {
  const uint32_t engine = engine_of(note);
  link_->slot(note & (kNoted - 1), engine)->measured.fetch_add(ns, std::memory_order_relaxed);
  if (page_ != nullptr) page_->device_ns[engine].fetch_add(ns, std::memory_order_relaxed);
}

void Admission::done(uint64_t kind, uint64_t note, uint64_t ns) {
  const uint32_t device = note & (kNoted - 1), engine = engine_of(note);
  const uint64_t cost = note >> 16;
  TurnSlot* const slot = link_->slot(device, engine);
  if (meter_ == nullptr) {
    slot->measured.fetch_add(cost, std::memory_order_relaxed);  // for turns; no figure for people
  } else if (ns != 0) {
    learn(&places_[device][engine], kind, cost, ns);
    if (unattended() &&
        link_->board().cap_permille.load(std::memory_order_relaxed) < scheduler::kPermille) {
      correct_cap(&places_[device][engine], cost, std::min(ns, kCostMax));
    }
  }
  const uint64_t completed = slot->completed.fetch_add(cost, std::memory_order_seq_cst) + cost;
  const uint64_t admitted = slot->admitted.load(std::memory_order_seq_cst);
  const uint64_t left = admitted > completed ? admitted - completed : 0;
  Place& place = places_[device][engine];
  if (place.waiting.load(std::memory_order_seq_cst) != 0 &&
      left <= place.wake_at.load(std::memory_order_seq_cst)) {
    slot->word.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(&slot->word);
  }
  const uint64_t turn_end = link_->grant(device, engine).turn_end.load(std::memory_order_relaxed);
  // Of a client that pauses before the end of its turn vgpud hears when it looks.
  if (completed < turn_end) return;
  if (place.rung_for.exchange(turn_end, std::memory_order_relaxed) != turn_end) link_->ring();
}

}  // namespace vgpu::server
