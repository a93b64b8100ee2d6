// Blocks of host memory that both sides have at the same address.
// SPDX-License-Identifier: Apache-2.0
#include "shim/host_block.h"

#include <cuda.h>

#include <mutex>

namespace vgpu::shim {
namespace {

// Shows the pages to the worker, which maps them at the same address. The worker takes descriptors
// in the order of the HostMap records, so no other may come between the two.
CUresult show(Session& session, const UniqueFd& memory, const HostBlock& block) {
  static SpinMutex descriptor_order;
  protocol::GuestChannel& channel = session.channel();
  wire::HostMapArgs args;
  args.address = block.address;
  args.bytes = block.mapped_bytes;
  args.flags = block.flags & (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  const uint32_t slot = channel.replies().acquire();
  if (slot == protocol::kNoReply) return session.lost();
  uint64_t number = 0;
  {
    std::lock_guard in_order(descriptor_order);
    const bool sent = channel.transport().same_address_space() ||
                      channel.transport().send_descriptor(memory.get(), block.address).ok();
    std::lock_guard lock(channel.lock());
    // In no context: one that ends meanwhile would leave a descriptor without its record.
    if (sent) number = session.post_locked(nullptr, Op::kHostMap, args, {}, slot, nullptr);
  }
  if (number == 0) {
    channel.replies().release(slot);
    return session.lost();
  }
  protocol::Reply reply;
  return session.finish(slot, &reply);
}

}  // namespace

CUresult make_host_block(Session& session, Context* context, uint64_t bytes, HostBlock* block) {
  if (bytes > HostMemory::kRangeBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  block->context = context->id;
  const Result<UniqueFd> memory = session.host_memory().map(bytes, block);
  if (!memory.ok()) return CUDA_ERROR_OUT_OF_MEMORY;
  if (shares_host_memory(session)) {
    if (CUresult r = show(session, *memory, *block); r != CUDA_SUCCESS) {
      session.host_memory().unmap(*block);
      return r;
    }
    block->in_place = true;
  }
  if (!session.host_memory().add(*block)) {  // the application has registered that place
    (void)end_host_block(session, context, *block);
    return CUDA_ERROR_UNKNOWN;
  }
  return CUDA_SUCCESS;
}

CUresult end_host_block(Session& session, Context* context, const HostBlock& block) {
  CUresult result = CUDA_SUCCESS;
  if (block.in_place) {
    wire::HostUnmapArgs args;
    args.address = block.address;
    result = session.call(context, Op::kHostUnmap, args);
  }
  session.host_memory().unmap(block);
  return result;
}

}  // namespace vgpu::shim
