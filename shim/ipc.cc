// Memory that processes of one user share: handles hold a name of the worker's.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>

#include "driver_functions.h"
#include "shim/process.h"
#include "shim/share.h"

namespace vgpu::driver {
namespace {

using shim::Allocation;
using shim::Context;
using shim::enter;
using shim::Session;
using shim::SharedMemory;
using shim::ShareName;

struct MemoryHandle {
  static constexpr uint64_t kMagic = 0x6370'695f'7570'6776;
  uint64_t magic = kMagic;
  ShareName name;
};
static_assert(sizeof(MemoryHandle) <= sizeof(CUipcMemHandle));

}  // namespace

CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!shim::shares_memory(*session)) return CUDA_ERROR_NOT_SUPPORTED;
  MemoryHandle handle;
  if (CUresult r = shim::share_block(*session, address, false, &handle.name); r != CUDA_SUCCESS)
    return r;
  *out = {};
  std::memcpy(out, &handle, sizeof(handle));
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle bytes, unsigned int flags) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  MemoryHandle handle;
  std::memcpy(static_cast<void*>(&handle), &bytes, sizeof(handle));
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
      handle.magic != MemoryHandle::kMagic) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!shim::shares_memory(*session)) return CUDA_ERROR_NOT_SUPPORTED;
  // As natively in the process that has made it.
  if (handle.name.session == session->hello().session) return CUDA_ERROR_INVALID_CONTEXT;
  OpenedMemory& opened = session->shared().opened;
  std::lock_guard lock(opened.calls);
  // Each context has a mapping of its own, which its device may use and which ends with it.
  const PeerName name{handle.name.secret_low, handle.name.secret_high, handle.name.session,
                      context->id};
  uint64_t address = opened.reopen(name);
  if (address == 0) {
    shim::PeerBlock block;
    if (CUresult r = shim::open_block(*session, handle.name, context->device, context->id, &block);
        r != CUDA_SUCCESS) {
      return r;
    }
    address = block.address;
    opened.add(address, name);
  }
  *out = address;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  OpenedMemory& opened = session->shared().opened;
  std::lock_guard lock(opened.calls);
  const OpenedMemory::Close closed = opened.close(address);
  if (closed == OpenedMemory::Close::kUnknown) return CUDA_ERROR_INVALID_VALUE;
  if (closed == OpenedMemory::Close::kStillOpen) return CUDA_SUCCESS;
  return shim::close_block(*session, address);
}

}  // namespace vgpu::driver

namespace vgpu::shim {

constexpr uint64_t kPiece = uint64_t{2} << 20;  // what memory is handed over in

CUresult share_block(Session& session, uint64_t address, bool pooled, ShareName* name) {
  SharedMemory& shared = session.shared();
  std::lock_guard naming(shared.naming);
  Allocation allocation;
  if (CUresult r = session.memory().share(address, &allocation, pooled); r != CUDA_SUCCESS)
    return r;
  {
    std::lock_guard lock(shared.mutex);
    const auto known = shared.names.find(allocation.id);
    if (known != shared.names.end()) {
      *name = known->second;
      return CUDA_SUCCESS;
    }
  }
  wire::MemShareArgs args;
  args.address = allocation.address & ~(kPiece - 1);
  args.offset = allocation.address - args.address;
  args.size = allocation.bytes;
  args.bytes = (args.offset + args.size + kPiece - 1) & ~(kPiece - 1);
  wire::MemShareReply answer;
  const CUresult result = session.ask(nullptr, Op::kMemShare, args, &answer);
  if (result != CUDA_SUCCESS) return result;
  *name = {answer.session, answer.secret_low, answer.secret_high};
  shared.any.store(true);
  {
    std::lock_guard lock(shared.mutex);
    shared.names[allocation.id] = *name;
  }
  // Freed meanwhile by another thread, which knew of no name.
  Allocation now;
  if (session.memory().find(address, &now) && now.id == allocation.id) return CUDA_SUCCESS;
  session.guest_device(allocation.device).forget_name(allocation.id);
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult open_block(Session& session, const ShareName& name, CUdevice device, uint64_t context,
                    PeerBlock* block) {
  FetchedShare fetched;
  if (CUresult r = fetched.fetch(session, name, kSharedMemory); r != CUDA_SUCCESS) return r;
  VirtualMemory& memory = session.virtual_memory();
  wire::PeerMapArgs args;
  args.number = fetched.number();
  args.address = memory.reserve_for_peer(fetched.bytes());
  args.device = static_cast<uint32_t>(device);
  if (args.address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = fetched.use(Op::kPeerMap, args);
  if (result != CUDA_SUCCESS) {
    memory.give_up_for_peer(args.address, fetched.bytes());
    return result;
  }
  memory.add_peer(args.address, fetched.bytes(), fetched.offset(), fetched.size(), context,
                  fetched.device());
  *block = {args.address + fetched.offset(), fetched.size()};
  return CUDA_SUCCESS;
}

CUresult close_block(Session& session, uint64_t address) {
  wire::PhysicalUnmapArgs args;
  if (!session.virtual_memory().remove_peer(address, &args.address, &args.bytes))
    return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = session.call(nullptr, Op::kPhysicalUnmap, args);
  if (result == CUDA_SUCCESS) session.virtual_memory().give_up_for_peer(args.address, args.bytes);
  return result;
}

void close_opened(Session& session, const Context* context) {
  OpenedMemory& opened = session.shared().opened;
  std::lock_guard lock(opened.calls);
  for (const uint64_t visible : session.virtual_memory().peers_of(context->id)) {
    opened.forget(visible);
    (void)close_block(session, visible);
  }
}

}  // namespace vgpu::shim
