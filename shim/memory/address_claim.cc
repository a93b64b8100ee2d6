// Claims are mappings without access: a wild pointer into them faults.
// SPDX-License-Identifier: Apache-2.0
#include "shim/memory/address_claim.h"

#include <sys/mman.h>

#include "protocol/limits.h"

namespace vgpu::shim {
namespace {

constexpr uint64_t kPageMask = protocol::kPageBytes - 1;

}  // namespace

bool claim_addresses(uint64_t address, uint64_t bytes) {
  if (bytes == 0 || bytes > UINT64_MAX - kPageMask - address) return false;
  const uint64_t begin = address & ~kPageMask;
  const uint64_t end = (address + bytes + kPageMask) & ~kPageMask;
  auto* const wanted = reinterpret_cast<void*>(begin);
  void* const got =
      ::mmap(wanted, end - begin, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == wanted) return true;
  // A kernel without FIXED_NOREPLACE takes it as a hint.
  if (got != MAP_FAILED) ::munmap(got, end - begin);
  return false;
}

void release_addresses(uint64_t address, uint64_t bytes) {
  ::munmap(reinterpret_cast<void*>(address), bytes);
}

}  // namespace vgpu::shim
