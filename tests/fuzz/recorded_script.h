// A recorded guest plays its session again, with whatever a fuzzer has made of its bytes.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_FUZZ_RECORDED_SCRIPT_H_
#define VGPU_TESTS_FUZZ_RECORDED_SCRIPT_H_

#include <cstdint>
#include <span>

#include "protocol/session/channel.h"

namespace vgpu::testing {

// Writes the records of `rest` (each as it stood in a ring: header, arguments, blob) and waits for
// the answers that they ask for (once one does not come within `answer_ns`, no longer), until the
// bytes are used up, the channel is dead or there are too many. Returns how many were written.
uint64_t write_recorded_script(protocol::GuestChannel* channel, std::span<const uint8_t> rest,
                               int64_t answer_ns);

}  // namespace vgpu::testing

#endif  // VGPU_TESTS_FUZZ_RECORDED_SCRIPT_H_
