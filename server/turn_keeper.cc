// The thread that gives turns.
// SPDX-License-Identifier: Apache-2.0
#include "server/turn_keeper.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/clock.h"
#include "base/futex.h"
#include "base/time_slice.h"
#include "scheduler/fair_share.h"
#include "scheduler/fifo.h"
#include "scheduler/round_robin.h"
#include "server/log.h"

namespace vgpu::server {
namespace {

// Bells that ring all the time do not keep the thread busier than that.
constexpr uint64_t kRoundNsMin = 20'000;
constexpr uint32_t kInFlight = 2;  // turns of all clients on an engine at once
// For who looks at each result before he asks for more: the way there and back.
constexpr uint64_t kPatienceNs = 500'000, kHoldNsMax = 100'000'000;

struct Board {
  UniqueFd memory;
  Mapping mapping;
};

// Writable through our mapping and through no other that is made later.
Result<Board> make_board() {
  Board board;
  board.memory.reset(memfd_create("vgpu-turns", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!board.memory.valid()) return Status::from_errno(errno, "memfd_create");
  if (ftruncate(board.memory.get(), kTurnBoardBytes) != 0)
    return Status::from_errno(errno, "ftruncate");
  Result<Mapping> mapping = Mapping::map_shared(board.memory.get(), kTurnBoardBytes);
  if (!mapping.ok()) return mapping.status();
  board.mapping = std::move(mapping).value();
  if (fcntl(board.memory.get(), F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    return Status::from_errno(errno, "F_SEAL_FUTURE_WRITE");
  }
  return board;
}

scheduler::TurnReport read_report(const TurnSlot& slot) {
  scheduler::TurnReport report;
  report.wanted = slot.wanted.load(std::memory_order_acquire);
  report.admitted = slot.admitted.load(std::memory_order_acquire);
  report.completed = slot.completed.load(std::memory_order_acquire);
  report.measured = slot.measured.load(std::memory_order_relaxed);
  return report;
}

TurnMode mode_of(SchedulerKind kind) {
  return kind == SchedulerKind::kFifo   ? TurnMode::kNever
         : kind == SchedulerKind::kAuto ? TurnMode::kWhereMeasured
                                        : TurnMode::kAlways;
}

// Waits for bells and kicks, at most so long; kNever: as long as it takes. Linux before 5.11 knows
// milliseconds only.
int wait_for_bells(int epoll, epoll_event* events, int count, uint64_t wait_ns) {
  const bool ever = wait_ns == scheduler::kNever;
  const timespec timeout = {static_cast<time_t>(wait_ns / 1'000'000'000),
                            static_cast<long>(wait_ns % 1'000'000'000)};
  const int found = epoll_pwait2(epoll, events, count, ever ? nullptr : &timeout, nullptr);
  if (found >= 0 || errno != ENOSYS) return found;
  return epoll_wait(
      epoll, events, count,
      ever ? -1 : static_cast<int>(std::min<uint64_t>((wait_ns + 999'999) / 1'000'000, INT_MAX)));
}

}  // namespace

bool parse_scheduler(const std::string& text, SchedulerKind* kind) {
  if (text == "auto") {
    *kind = SchedulerKind::kAuto;
  } else if (text == "fair") {
    *kind = SchedulerKind::kFair;
  } else if (text == "fifo") {
    *kind = SchedulerKind::kFifo;
  } else if (text == "round-robin") {
    *kind = SchedulerKind::kRoundRobin;
  } else {
    return false;
  }
  return true;
}

scheduler::Share valid_share(const scheduler::Share& share) {
  scheduler::Share valid = share;
  valid.weight = std::clamp(share.weight, 1u, scheduler::kWeightMax);
  valid.cap_permille = std::clamp(share.cap_permille, 1u, scheduler::kPermille);
  if (static_cast<uint32_t>(share.priority) >= scheduler::kClasses)
    valid.priority = scheduler::PriorityClass::kNormal;
  return valid;
}

Result<std::unique_ptr<TurnKeeper>> TurnKeeper::create(SchedulerKind kind) {
  std::unique_ptr<TurnKeeper> keeper(new TurnKeeper(kind));  // NOLINT: the constructor is private
  if (Status started = keeper->start(); !started.ok()) return started;
  return keeper;
}

Status TurnKeeper::start() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  kick_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !kick_.valid()) return Status::from_errno(errno, "epoll");
  epoll_event event{};
  event.events = EPOLLIN;  // its data is 0, which is no client
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, kick_.get(), &event) != 0)
    return Status::from_errno(errno, "epoll_ctl");
  if (kind_ != SchedulerKind::kFifo) thread_ = std::thread([this] { loop(); });
  return ok_status();
}

TurnKeeper::~TurnKeeper() {
  stopping_.store(true, std::memory_order_relaxed);
  kick();
  if (thread_.joinable()) thread_.join();
}

// A round is due.
void TurnKeeper::kick() {
  const uint64_t one = 1;
  (void)!write(kick_.get(), &one, sizeof(one));
}

std::unique_ptr<scheduler::Policy> TurnKeeper::make_policy() const {
  if (kind_ == SchedulerKind::kRoundRobin)
    return std::make_unique<scheduler::RoundRobin>(kInFlight);
  scheduler::FairLimits limits;
  limits.window = kInFlight;
  limits.urgent = 1;
  limits.patience_ns = kPatienceNs;
  limits.hold_ns_max = kHoldNsMax;
  return std::make_unique<scheduler::FairShare>(limits);
}

scheduler::Turns& TurnKeeper::turns(uint32_t device, uint32_t engine) {
  std::unique_ptr<scheduler::Turns>& found = devices_[device][engine];
  if (found == nullptr) {
    scheduler::TurnLimits limits;
    limits.one_piece = kind_ == SchedulerKind::kRoundRobin;
    found = std::make_unique<scheduler::Turns>(make_policy(),
                                               static_cast<scheduler::Engine>(engine), limits);
  }
  return *found;
}

Result<TurnKeeper::Papers> TurnKeeper::add(uint64_t client, WorkerPage* page,
                                           const WorkerGrants& grants,
                                           const scheduler::Share& share) {
  Result<Board> board = make_board();
  if (!board.ok()) return board.status();
  UniqueFd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd theirs(fcntl(bell.get(), F_DUPFD_CLOEXEC, 0));
  if (!bell.valid() || !theirs.valid()) return Status::from_errno(errno, "eventfd");
  const uint64_t now = monotonic_ns();
  std::lock_guard lock(mutex_);
  Member& member = members_[client];
  member.page = page;
  member.grants = grants;
  member.grants.count = std::min<uint32_t>(grants.count, protocol::kDevicesMax);
  member.share = valid_share(share);
  member.board = std::move(board->mapping);
  member.bell = std::move(bell);
  member.shown()->client.store(client, std::memory_order_relaxed);
  member.shown()->mode.store(mode_of(kind_), std::memory_order_relaxed);
  for (uint32_t i = 0; i < member.grants.count; ++i) {
    for (uint32_t engine = 0; engine < scheduler::kEngines; ++engine) {
      TurnGrant& shown = member.shown()->grants[i][engine];
      shown.allowance.store(scheduler::kOpen, std::memory_order_relaxed);
      shown.turn_end.store(scheduler::kOpen, std::memory_order_relaxed);
      if (kind_ == SchedulerKind::kFifo) continue;
      turns(grants.device[i], engine)
          .add(client, member.share, read_report(page->turns[i][engine]), now);
    }
  }
  show_share(&member);
  if (kind_ != SchedulerKind::kFifo) {
    publish(client, &member);
    epoll_event event{};
    // By edges, so that nobody reads it: its worker has the same open file, may make reads block,
    // and may read it itself.
    event.events = EPOLLIN | EPOLLET;
    event.data.u64 = client;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, member.bell.get(), &event) != 0)
      return Status::from_errno(errno, "epoll_ctl");
  }
  return Papers{std::move(board->memory), std::move(theirs)};
}

void TurnKeeper::remove(uint64_t client) {
  std::lock_guard lock(mutex_);
  const auto found = members_.find(client);
  if (found == members_.end()) return;
  for (auto& [device, engines] : devices_) {
    for (auto& each : engines) {
      if (each != nullptr) each->remove(client, monotonic_ns());
    }
  }
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.bell.get(), nullptr);
  members_.erase(found);
  kick();  // what it had goes to the others now
}

void TurnKeeper::set_share(uint64_t client, const scheduler::Share& share) {
  std::lock_guard lock(mutex_);
  const auto found = members_.find(client);
  if (found == members_.end()) return;
  Member& member = found->second;
  member.share = valid_share(share);
  const uint64_t now = monotonic_ns();
  for (uint32_t i = 0; i < member.grants.count && kind_ != SchedulerKind::kFifo; ++i) {
    for (uint32_t engine = 0; engine < scheduler::kEngines; ++engine)
      turns(member.grants.device[i], engine).set_share(client, member.share, now);
  }
  show_share(&member);
  kick();
}

void TurnKeeper::show_share(Member* member) {
  TurnBoard& board = *member->shown();
  board.weight.store(member->share.weight, std::memory_order_relaxed);
  board.priority.store(static_cast<uint32_t>(member->share.priority), std::memory_order_relaxed);
  board.cap_permille.store(member->share.cap_permille, std::memory_order_relaxed);
}

// What has changed, and whoever may wait for it is woken. A member that wants nothing and has
// nothing is passed over from then on.
void TurnKeeper::publish(uint64_t client, Member* member) {
  for (uint32_t i = 0; i < member->grants.count; ++i) {
    for (uint32_t engine = 0; engine < scheduler::kEngines; ++engine) {
      if (member->quiet[i][engine]) continue;
      const scheduler::Turns& from = turns(member->grants.device[i], engine);
      const uint64_t allowance = from.allowance(client), turn_end = from.turn_end(client);
      const scheduler::TurnReport& report = member->last[i][engine];
      member->quiet[i][engine] =
          report.idle() && turn_end == scheduler::kOpen && allowance <= report.admitted;
      TurnGrant& shown = member->shown()->grants[i][engine];
      shown.throttled.store(from.throttled(client) ? 1 : 0, std::memory_order_relaxed);
      shown.turn_end.store(turn_end, std::memory_order_relaxed);
      // seq_cst: partner is try_admit(), which then sees where the turn ends.
      const uint64_t before = shown.allowance.exchange(allowance, std::memory_order_seq_cst);
      member->shown()->beat.store(rounds_, std::memory_order_relaxed);
      if (allowance <= before) continue;
      std::atomic<uint32_t>& word = member->page->turns[i][engine].word;
      word.fetch_add(1, std::memory_order_seq_cst);
      futex_wake_all(&word);
    }
  }
}

// The next round's time.
uint64_t TurnKeeper::round() {
  std::lock_guard lock(mutex_);
  const uint64_t now = monotonic_ns();
  ++rounds_;
  for (auto& [client, member] : members_) {
    for (uint32_t i = 0; i < member.grants.count; ++i) {
      for (uint32_t engine = 0; engine < scheduler::kEngines; ++engine) {
        const scheduler::TurnReport report = read_report(member.page->turns[i][engine]);
        if (member.quiet[i][engine] && report == member.last[i][engine]) continue;
        member.quiet[i][engine] = false;
        member.last[i][engine] = report;
        turns(member.grants.device[i], engine).report(client, report, now);
      }
    }
  }
  uint64_t next = scheduler::kNever;
  for (auto& [device, engines] : devices_) {
    for (auto& each : engines) {
      if (each == nullptr) continue;
      each->round(now);
      next = std::min(next, each->next_round(now));
    }
  }
  for (auto& [client, member] : members_) publish(client, &member);
  return next;
}

void TurnKeeper::loop() {
  use_short_time_slices();
  uint64_t next = scheduler::kNever, last = 0;
  for (;;) {
    const uint64_t now = monotonic_ns();
    const uint64_t wait = next == scheduler::kNever ? next : next > now ? next - now : 0;
    epoll_event events[32];
    const int count = wait_for_bells(epoll_.get(), events, 32, wait);
    uint64_t kicks = 0;
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == 0) (void)!read(kick_.get(), &kicks, sizeof(kicks));
    }
    if (stopping_.load(std::memory_order_relaxed)) return;
    const uint64_t since = monotonic_ns() - last;
    if (since < kRoundNsMin) {
      const timespec rest = {0, static_cast<long>(kRoundNsMin - since)};
      (void)nanosleep(&rest, nullptr);
    }
    next = round();
    last = monotonic_ns();
  }
}

}  // namespace vgpu::server
