// Memory of other processes, by handles that say where its file is.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>
#include <unistd.h>

#include <cstring>

#include "driver_functions.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/peer_memory.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::Driver;
using softgpu::enter;
using softgpu::MemorySpace;

struct MemoryHandle {
  static constexpr uint64_t kMagic = 0x4350'4950'4756'0001;
  uint64_t magic = kMagic;
  softgpu::PeerBlock block;
};
static_assert(sizeof(MemoryHandle) <= sizeof(CUipcMemHandle));

bool is_opened_by(const Context& context, uint64_t address) {
  const auto range = context.device().memory().find(address);
  return range.has_value() && range->base == address && range->kind == softgpu::MemoryKind::kPeer &&
         range->owner == context.id;
}

}  // namespace

CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MemorySpace& memory = context->device().memory();
  const auto range = memory.find(address);
  if (!range.has_value() || range->kind != softgpu::MemoryKind::kDevice || range->pooled)
    return CUDA_ERROR_INVALID_VALUE;
  MemorySpace::SharedBlock block;
  MemorySpace& where = Driver::instance().device(range->device).memory();
  if (!where.share(address, &block)) return CUDA_ERROR_OUT_OF_MEMORY;
  const MemoryHandle handle{MemoryHandle::kMagic, softgpu::PeerBlock::of(block)};
  *out = {};
  std::memcpy(out, &handle, sizeof(handle));
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle bytes, unsigned int flags) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  MemoryHandle handle;
  std::memcpy(static_cast<void*>(&handle), &bytes, sizeof(handle));
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
      handle.magic != MemoryHandle::kMagic) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (handle.block.process == ::getpid()) return CUDA_ERROR_INVALID_CONTEXT;  // as natively
  OpenedMemory& opened = Driver::instance().opened;
  std::lock_guard<std::mutex> lock(opened.calls);
  const PeerName name{handle.block.secret.low, handle.block.secret.high, handle.block.offset,
                      context->id};
  uint64_t address = opened.reopen(name);
  if (address != 0 && !is_opened_by(*context, address)) {
    opened.forget(address);  // it went with its context
    address = 0;
  }
  if (address == 0) {
    address = handle.block.open(context->device().memory(), context->id);
    if (address == 0) return CUDA_ERROR_INVALID_VALUE;
    opened.add(address, name);
  }
  *out = address;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter_ignoring_errors(&context); result != CUDA_SUCCESS)
    return result;
  OpenedMemory& opened = Driver::instance().opened;
  std::lock_guard<std::mutex> lock(opened.calls);
  const OpenedMemory::Close closed = opened.close(address);
  if (closed == OpenedMemory::Close::kUnknown) return CUDA_ERROR_INVALID_VALUE;
  if (closed == OpenedMemory::Close::kStillOpen) return CUDA_SUCCESS;
  const auto range = context->device().memory().find(address);
  if (!range.has_value()) return CUDA_SUCCESS;  // it went with its context
  context->device().management().wait_for_all(*context->channel());
  (void)Driver::instance().device(range->device).memory().close_peer(address);
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
