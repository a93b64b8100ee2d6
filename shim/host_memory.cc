// Host memory: cuMemHostAlloc, in place on both sides, and cuMemHostRegister, which stays the
// application's own. SPDX-License-Identifier: Apache-2.0
#include "shim/host_memory.h"

#include <cuda.h>
#include <cudaProfiler.h>

#include <mutex>

#include "api/graph/capture.h"
#include "driver_functions.h"
#include "shim/process.h"

namespace vgpu::driver {

using shim::Context;
using shim::enter;
using shim::HostBlock;
using shim::HostMemory;
using shim::Session;

namespace {

constexpr unsigned kAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

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

// Takes the pages from the worker, which waits for the work that uses them, and from this process.
CUresult hide(Session& session, Context* context, const HostBlock& block) {
  CUresult result = CUDA_SUCCESS;
  if (block.in_place) {
    wire::HostUnmapArgs args;
    args.address = block.address;
    result = session.call(context, Op::kHostUnmap, args);
  }
  session.host_memory().unmap(block);
  return result;
}

}  // namespace
}  // namespace vgpu::driver

namespace vgpu::shim {

CUresult allocate_host(Session& session, Context* context, uint64_t bytes, uint32_t flags,
                       HostBlock* block) {
  if (bytes > HostMemory::kRangeBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  block->flags = flags;
  block->context = context->id;
  const Result<UniqueFd> memory = session.host_memory().map(bytes, block);
  if (!memory.ok()) return CUDA_ERROR_OUT_OF_MEMORY;
  if (session.host_memory().claimed() || session.channel().transport().same_address_space()) {
    if (CUresult r = driver::show(session, *memory, *block); r != CUDA_SUCCESS) {
      session.host_memory().unmap(*block);
      return r;
    }
    block->in_place = true;
  }
  if (session.host_memory().add(*block)) return CUDA_SUCCESS;
  (void)driver::hide(session, context, *block);  // the application has registered that place
  return CUDA_ERROR_UNKNOWN;
}

CUresult free_host(Session& session, Context* context, uint64_t address) {
  HostBlock block;
  if (!session.host_memory().remove(address, false, &block)) return CUDA_ERROR_INVALID_VALUE;
  return driver::hide(session, context, block);
}

}  // namespace vgpu::shim

namespace vgpu::driver {

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr || bytes == 0 || (flags & ~kAllocFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = graph::check_unsafe(); r != CUDA_SUCCESS) return r;
  HostBlock block;
  const CUresult result = shim::allocate_host(*session, context, bytes, flags, &block);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<void*>(block.address);
  return result;
}

CUresult cuMemAllocHost_v2(void** out, size_t bytes) {
  return driver::cuMemHostAlloc(out, bytes, 0);
}

CUresult cuMemFreeHost(void* pointer) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = graph::check_unsafe(); r != CUDA_SUCCESS) return r;
  return shim::free_host(*session, context, reinterpret_cast<uint64_t>(pointer));
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int flags) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  HostBlock block;
  if (out == nullptr || flags != 0 ||
      !session->host_memory().find(reinterpret_cast<uint64_t>(pointer), &block)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!block.in_place)
    return CUDA_ERROR_NOT_SUPPORTED;  // the device cannot reach the application's own pages
  *out = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  HostBlock block;
  if (flags == nullptr ||
      !session->host_memory().find(reinterpret_cast<uint64_t>(pointer), &block)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // With unified addressing every allocation is portable and mapped.
  *flags = block.in_place ? block.flags | CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
                          : block.flags;
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int flags) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (pointer == nullptr || bytes == 0 || (flags & ~kRegisterFlags) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  HostBlock block;
  block.address = reinterpret_cast<uint64_t>(pointer);
  block.bytes = bytes;
  block.flags = flags;
  block.context = context->id;
  return session->host_memory().add(block) ? CUDA_SUCCESS
                                           : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostUnregister(void* pointer) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  HostBlock block;
  return session->host_memory().remove(reinterpret_cast<uint64_t>(pointer), true, &block)
             ? CUDA_SUCCESS
             : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

}  // namespace vgpu::driver
