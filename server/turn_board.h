// The pages by which vgpud and a worker agree on turns: each writes its own.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_TURN_BOARD_H_
#define VGPU_SERVER_TURN_BOARD_H_

#include <atomic>
#include <cstdint>

#include "protocol/limits.h"
#include "scheduler/share.h"

namespace vgpu::server {

// What a worker says of one engine of one of its guest's devices, in its own page. Sums since the
// session began, nanoseconds of device time. vgpud reads `wanted` first: then what was admitted
// before it was cleared is seen as well.
struct TurnSlot {
  // --- by those who give work to the driver
  std::atomic<uint64_t> admitted;  // estimates of what the driver was given
  std::atomic<uint64_t> wanted;    // estimate of what waits for a turn; 0: nothing
  // Futex: raised by vgpud when it has given something, and by the worker when work is past that
  // others wait for.
  std::atomic<uint32_t> word;
  // --- by the device's threads
  alignas(64) std::atomic<uint64_t> completed;  // estimates of what is past
  std::atomic<uint64_t> measured;               // device time really used
};

// What vgpud says of the same, in a page that the worker can only read.
struct TurnGrant {
  std::atomic<uint64_t> allowance;  // work begins while `admitted` is below; kOpen: as one likes
  std::atomic<uint64_t> turn_end;   // of `completed`: vgpud wants to hear of it; kOpen: no turn
  std::atomic<uint32_t> throttled;  // 1: what waits is held back by the cap
};

// Whether a worker that begins to serve takes turns at all, for its life.
enum class TurnMode : uint32_t { kAlways, kNever, kWhereMeasured };  // the driver tells device time

// One for each session and vgpud that it has had: nobody finds his way into another's, and no place
// is used twice.
struct TurnBoard {
  std::atomic<uint64_t> client;  // whose it is: its worker's process
  std::atomic<uint64_t> beat;    // changes with every round
  // The share as it is now: what a worker tells the next vgpud, and its cap while there is none.
  std::atomic<uint32_t> weight, priority, cap_permille;
  std::atomic<TurnMode> mode;
  alignas(64) TurnGrant grants[protocol::kDevicesMax][scheduler::kEngines];
};

inline constexpr size_t kTurnBoardBytes = 4096;
static_assert(sizeof(TurnBoard) <= kTurnBoardBytes);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_TURN_BOARD_H_
