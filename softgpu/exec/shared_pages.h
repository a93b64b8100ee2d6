// Files that hold device memory which another process can have too, and moving memory into one
// while kernels go on using it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "base/unique_fd.h"

namespace vgpu::softgpu {

// Random; tells one such file from all others.
struct PagesSecret {
  uint64_t low = 0, high = 0;
  bool operator==(const PagesSecret&) const = default;
};

// A sealed memory file of `bytes` (whole pages), zeroed, and a page behind them which says what it
// is, and of the device of which identity.
Result<UniqueFd> make_shared_pages(uint64_t bytes, PagesSecret* secret = nullptr, int identity = 0);
// How many bytes a file of make_shared_pages() has, this process' or another's; 0: it is none.
uint64_t shared_pages_bytes(int file, PagesSecret* secret = nullptr, int* identity = nullptr);

// Memory that is mapped at `address`, and may be accessed so (as for mprotect).
struct MovedMapping {
  uint64_t address = 0;
  int protection = 0;
};
// Copies `bytes` from `source` (readable) into the file and lays its pages over each of `mappings`.
// Whoever writes there meanwhile waits. One at a time. False, and nothing has changed, when the
// system gives no memory.
bool move_to_shared_pages(int file, uint64_t source, uint64_t bytes,
                          std::span<const MovedMapping> mappings);

}  // namespace vgpu::softgpu
