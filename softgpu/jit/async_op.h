// Numbers under which emitted code asks the runtime for operations on mbarriers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace vgpu::softgpu {

enum class MbarrierOp : uint32_t {
  kInit,    // value: threads that must arrive
  kArrive,  // value: how many arrive
  kDrop,    // the same, and as many fewer are expected from the next phase on
  kExpect,  // value: bytes that must be copied before the phase ends
  kExpectAndArrive,
  kComplete,    // value: bytes that were copied
  kTest,        // value: the state that an arrival gave; 1 when that phase is over
  kTestParity,  // value: 0 or 1; 1 when the phase of that parity is over
  kPending,     // value: a state; the arrivals that it waits for
};

// Tells the mbarrier at an address of the guest's of bytes that were copied.
void complete_bytes(uint64_t mbarrier, uint64_t bytes);

}  // namespace vgpu::softgpu
