// Holding addresses of this process, so that nothing else of it comes to lie there.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_MEMORY_ADDRESS_CLAIM_H_
#define VGPU_SHIM_MEMORY_ADDRESS_CLAIM_H_

#include <cstdint>

namespace vgpu::shim {

// Maps the whole pages around [address, address + bytes) without access. False, and nothing
// changed, when something lies there already or the range is none.
bool claim_addresses(uint64_t address, uint64_t bytes);

// Gives a claim back, or a part of it in whole pages.
void release_addresses(uint64_t address, uint64_t bytes);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_MEMORY_ADDRESS_CLAIM_H_
