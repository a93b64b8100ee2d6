// Sessions side by side: each on threads of its own, with a part of the addresses, a page, a board
// and a socket to vgpud of its own.
// SPDX-License-Identifier: Apache-2.0
#include "server/packed_worker.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "server/guest_papers.h"
#include "server/log.h"
#include "server/neighbours.h"
#include "server/serve.h"

namespace vgpu::server {
namespace {

// For the work of guests that have gone, while no other guest is there.
constexpr std::chrono::milliseconds kStuckTime{1000};

// Which parts are taken, and how many sessions there are. Thread-safe.
class Parts {
 public:
  // -1: all are taken.
  int take() {
    std::lock_guard lock(mutex_);
    for (uint32_t i = 0; i < kPackedGuestsMax; ++i) {
      const uint32_t part = (next_ + i) % kPackedGuestsMax;
      if (taken_[part]) continue;
      taken_[part] = true;
      ++count_;
      next_ = part + 1;  // what is late of an earlier session is not taken for a new one's
      return static_cast<int>(part);
    }
    return -1;
  }
  // Its guest has gone; what it has with the device may still run.
  void leave(int part) {
    std::lock_guard lock(mutex_);
    bool& left = left_[static_cast<size_t>(part)];
    left_count_ += !left;
    left = true;
    changed_.notify_all();
  }
  void give_back(int part) {
    std::lock_guard lock(mutex_);
    left_count_ -= left_[static_cast<size_t>(part)];
    left_[static_cast<size_t>(part)] = taken_[static_cast<size_t>(part)] = false;
    --count_;
    changed_.notify_all();
  }
  // Returns when guests have been gone for so long whose work does not end, and no other is there.
  void wait_for_stuck(std::chrono::milliseconds time) {
    const auto only_stuck = [this] { return count_ != 0 && left_count_ == count_; };
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, only_stuck);
      if (!changed_.wait_for(lock, time, [&] { return !only_stuck(); })) return;
    }
  }
  void wait_for_none() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<bool, kPackedGuestsMax> taken_{}, left_{};
  uint32_t next_ = 0, count_ = 0, left_count_ = 0;
};

// What all sessions have.
struct House {
  PackedOptions options;
  Neighbours neighbours;
  Parts parts;
};

Result<Mapping> map_page(const UniqueFd& page) {
  VGPU_RETURN_IF_ERROR(protocol::check_sealed_memory(page.get(), sizeof(WorkerPage)));
  return Mapping::map_shared(page.get(), kWorkerPageBytes);
}

// Between its attach and its end; a failure before that closes the guest's connection.
Status serve_one(House* house, GuestPapers guest, uint32_t part) {
  const DriverTable* driver = &house->options.driver->table;
  UniqueFd control = std::move(guest.more[0]);
  Result<Mapping> page = map_page(guest.more[1]);
  if (!page.ok()) return page.status();
  Result<Devices> devices = Devices::open(driver, house->options.devices);
  if (!devices.ok()) return devices.status();
  devices->set_part(part, kPackedGuestsMax);
  Status status = grant_devices(&*devices, guest.assign.grants);
  protocol::HelloReply reply = make_reply(&*devices, guest.hello, guest.assign.session,
                                          driver_kind_name(house->options.driver->kind));
  reply.limits = guest.assign.record.limits;
  auto* const shown = reinterpret_cast<WorkerPage*>(page->data());
  TurnLink turns(shown->turns);
  if (status.ok()) status = turns.connect(std::move(guest.board), std::move(guest.bell));
  const int connection = guest.connection.get();
  std::unique_ptr<protocol::WorkerChannel> channel;
  if (status.ok()) {
    auto opened = open_channel(*devices, std::move(guest.connection), guest.hello, &reply);
    status = opened.status();
    if (opened.ok()) channel = std::move(opened).value();
  }
  const UniqueFd over(eventfd(0, EFD_CLOEXEC));
  if (status.ok() && !over.valid()) status = Status::from_errno(errno, "eventfd");
  if (status.ok()) {
    Steering steering;
    Liveness liveness = guest.liveness();
    liveness.steering = &steering;
    liveness.turns = &turns;
    liveness.connection = connection;
    liveness.control = std::move(control);
    liveness.page = std::move(guest.more[1]);
    liveness.door = std::move(guest.more[2]);
    liveness.server_user = house->options.server_user;
    liveness.over = over.get();
    liveness.gone = [house, part, connection, channel = channel.get()] {
      house->parts.leave(static_cast<int>(part));
      (void)shutdown(connection, SHUT_RDWR);  // the guest may be there still
      channel->mark_dead();
    };
    if (guest.is_gone()) liveness.gone();
    std::thread watching = watch_one(std::move(liveness));
    ServeOptions serving;
    serving.page = shown;
    serving.steering = &steering;
    serving.neighbours = &house->neighbours;
    serving.place = part;
    if (turns.board().mode.load(std::memory_order_relaxed) != TurnMode::kNever)
      serving.turns = &turns;
    (void)serve_guest(driver, &*devices, reply, channel.get(), serving);
    (void)shutdown(connection, SHUT_RDWR);
    devices->give_back();
    give_back_host_range(reply.host_range);
    const uint64_t one = 1;
    (void)!write(over.get(), &one, sizeof(one));
    watching.join();
    return ok_status();
  }
  devices->give_back();
  give_back_host_range(reply.host_range);
  return status;
}

void take_in(House* house, protocol::ControlFrame frame) {
  Result<GuestPapers> guest = GuestPapers::read(std::move(frame), kPackedDescriptors);
  if (!guest.ok()) return log(Level::kError, "guest: %s", guest.status().to_string().c_str());
  const int part = house->parts.take();
  if (part < 0) return log(Level::kError, "guest %d: no part is free", guest->assign.guest_pid);
  const auto moved = std::make_shared<GuestPapers>(std::move(guest).value());
  std::thread([house, moved, part] {
    const int32_t pid = moved->assign.guest_pid;
    const Status served = serve_one(house, std::move(*moved), static_cast<uint32_t>(part));
    if (!served.ok()) log(Level::kError, "guest %d: %s", pid, served.to_string().c_str());
    house->parts.give_back(part);
  }).detach();
}

}  // namespace

int serve_packed(const PackedOptions& options, int control) {
  // Lives as long as the process: sessions may be anywhere in it.
  static House house{options,
                     Neighbours([control] {
                       PeerMessage message;
                       message.kind = PeerMessageKind::kBroken;
                       (void)protocol::send_frame(control, bytes_of(message), {}, 0);
                     }),
                     {}};
  if (options.launch_ms != 0) limit_all_kernels(options.driver->table, options.launch_ms);
  // A kernel that never ends is nobody's loss then.
  std::thread([] {
    house.parts.wait_for_stuck(kStuckTime);
    log(Level::kWarn, "the work of guests that have gone does not end; the worker ends");
    _exit(0);
  }).detach();
  while (true) {
    Result<protocol::ControlFrame> frame = protocol::receive_frame(control, -1);
    if (frame.ok()) {
      take_in(&house, std::move(frame).value());
    } else if (frame.status().code() == StatusCode::kUnavailable) {
      break;
    } else {
      log(Level::kError, "vgpud: %s", frame.status().to_string().c_str());
    }
  }
  house.parts.wait_for_none();
  return 0;
}

}  // namespace vgpu::server
