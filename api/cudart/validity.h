// libcudart's self-test of the driver: a keyed digest over who we are. See docs/decisions/0007.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace vgpu::cudart {

// Addresses that enter the digest.
struct ValidityTables {
  const void* runtime_interface;
  const void* integrity_check;
  const void* function;  // the slot that is being called
};

// What the integrity table's slot answers. CUDA_ERROR_NOT_SUPPORTED when built without
// VGPU_CUDART_VALIDITY.
CUresult validity_digest(const ValidityTables& tables, uint32_t version, uint64_t unix_seconds,
                         uint64_t out[2]);

// RFC 1319 and RFC 2104 (block of 16 bytes). Exposed for their tests.
void md2(std::string_view text, uint8_t out[16]);
void hmac_md2(std::span<const uint8_t, 16> key, std::string_view text, uint8_t out[16]);

}  // namespace vgpu::cudart
