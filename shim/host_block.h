// Blocks of host memory that both sides have at the same address: making and ending them.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_HOST_BLOCK_H_
#define VGPU_SHIM_HOST_BLOCK_H_

#include "shim/process.h"

namespace vgpu::shim {

// Whether the device reaches such blocks at all: else copies go through the slabs.
inline bool shares_host_memory(Session& session) {
  return session.host_memory().claimed() || session.channel().transport().same_address_space();
}

// Fresh zeroed pages. The caller has set the block's kind and flags.
CUresult make_host_block(Session& session, Context* context, uint64_t bytes, HostBlock* block);

// Takes the pages from the worker, which waits for the work that uses them, and from this process.
CUresult end_host_block(Session& session, Context* context, const HostBlock& block);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_HOST_BLOCK_H_
