// Engine of the fuzzer of what comes over a network: any bytes in, a trap when a promise is broken.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_FUZZ_MIRROR_SCRIPT_H_
#define VGPU_TESTS_FUZZ_MIRROR_SCRIPT_H_

#include <cstdint>
#include <span>

namespace vgpu::net {

// The bytes are messages: first whom they go to (even: a gate, odd: a guest that waits for one
// answer), then for each its length (two bytes) and its own bytes; with a length of 0xffff the
// message gets the header that its length asks for. Traps when something changes that the peer may
// not change. Returns how many messages were taken.
uint64_t run_mirror_script(std::span<const uint8_t> bytes);

}  // namespace vgpu::net

#endif  // VGPU_TESTS_FUZZ_MIRROR_SCRIPT_H_
