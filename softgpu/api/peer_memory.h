// Where a block of device memory is that another process may open: what handles hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/unique_fd.h"
#include "softgpu/exec/memory_space.h"

namespace vgpu::softgpu {

// The file is reached through the process that has it, which the system lets processes of the same
// user do; its secret tells whether it still is the file that was meant.
struct PeerBlock {
  int32_t process = 0;
  int32_t file = -1;
  PagesSecret secret;
  uint64_t offset = 0, bytes = 0;

  static PeerBlock of(const MemorySpace::SharedBlock& block) {
    return {static_cast<int32_t>(::getpid()), block.file, block.secret, block.offset, block.bytes};
  }
  // The block as memory of `space`, of context `owner`. 0: it is not there any more.
  uint64_t open(MemorySpace& space, uint64_t owner) const {
    const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
    const UniqueFd pages(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!pages.valid()) return 0;
    return space.open_peer(pages.get(), {pages.get(), secret, offset, bytes}, owner);
  }
};

}  // namespace vgpu::softgpu
