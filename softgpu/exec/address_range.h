// Claims ranges of addresses without giving them memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstdint>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace vgpu::softgpu {

// The thread sanitizer keeps most of the address space for itself and refuses what lies outside its
// windows.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kAddressesOfOurChoice = false;
inline constexpr uint64_t kAddressBytesMax = 16ull << 30;
#else
inline constexpr bool kAddressesOfOurChoice = true;
inline constexpr uint64_t kAddressBytesMax = 1ull << 40;
#endif

// `bytes` of inaccessible addresses, exactly at `hint` when that is not zero, else anywhere. Zero
// when they cannot be had.
inline uint64_t claim_addresses(uint64_t hint, uint64_t bytes) {
  if (hint != 0 && !kAddressesOfOurChoice) return 0;
  const int flags =
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (hint != 0 ? MAP_FIXED_NOREPLACE : 0);
  void* const got = ::mmap(reinterpret_cast<void*>(hint), bytes, PROT_NONE, flags, -1, 0);
  if (got == MAP_FAILED) return 0;
  if (hint != 0 && got != reinterpret_cast<void*>(hint)) {  // kernels before 4.17 take it as a wish
    ::munmap(got, bytes);
    return 0;
  }
  return reinterpret_cast<uint64_t>(got);
}

}  // namespace vgpu::softgpu
