// Engines of the protocol's fuzzers: any bytes in, a trap when a promise is broken.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_FUZZ_PROTOCOL_SCRIPT_H_
#define VGPU_TESTS_FUZZ_PROTOCOL_SCRIPT_H_

#include <cstdint>
#include <span>
#include <vector>

namespace vgpu::protocol {

// The bytes drive a hostile guest that writes anywhere in the shared memory between the consumer's
// steps. Returns how many records the consumer believed. Traps when one of them is not what
// record.h promises.
uint64_t run_ring_script(std::span<const uint8_t> bytes);

// The bytes are one control message. Whatever is accepted must survive being sent on. Returns
// whether it was accepted.
bool run_control_script(std::span<const uint8_t> bytes);

// The bytes lie in a machine's mailbox to the host, behind a tail that they begin with. Returns how
// much mail the host believed; what of it are control messages goes through run_control_script.
uint64_t run_mail_script(std::span<const uint8_t> bytes);

// Real messages, encoded: where mutations start from. One of each kind.
std::vector<std::vector<uint8_t>> control_seeds();

}  // namespace vgpu::protocol

#endif  // VGPU_TESTS_FUZZ_PROTOCOL_SCRIPT_H_
