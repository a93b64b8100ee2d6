// Pools that several processes have, and what they have of each other's blocks.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstring>

#include "driver_functions.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/peer_memory.h"

namespace vgpu::driver {
namespace {

using softgpu::DevicePools;
using softgpu::Driver;
using softgpu::id_of;
using softgpu::MemorySpace;

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

// What the descriptor of a pool holds.
struct PoolFile {
  static constexpr uint64_t kMagic = 0x4c4f'4f50'4756'0001;
  uint64_t magic = kMagic;
  PoolName name;
  int64_t identity = 0;  // of the device that the pool is on
};

struct PointerData {
  uint64_t pool_low = 0, pool_high = 0;
  softgpu::PeerBlock block;
};
static_assert(sizeof(PointerData) <= sizeof(CUmemPoolPtrExportData));

DevicePools& pools() { return Driver::instance().pools(); }

CUresult ready_for_sharing() {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  return Driver::instance().device_count() != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool read_file(int descriptor, PoolFile* content) {
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals &&
         ::pread(descriptor, content, sizeof(*content), 0) == sizeof(*content) &&
         content->magic == PoolFile::kMagic;
}

// The pool's name, made when it is first wanted.
CUresult name_of(CUmemoryPool pool, int* device, PoolName* name) {
  static std::mutex one_at_a_time;
  std::lock_guard<std::mutex> lock(one_at_a_time);
  if (const CUresult r = pools()->check_export(id_of(pool), device, name); r != CUDA_SUCCESS)
    return r;
  if (*name != PoolName()) return CUDA_SUCCESS;
  uint64_t secret[2];
  if (::getrandom(secret, sizeof(secret), 0) != sizeof(secret)) return CUDA_ERROR_OUT_OF_MEMORY;
  *name = {0, secret[0], secret[1]};
  pools()->set_name(id_of(pool), *name);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemPoolExportToShareableHandle(void* out, CUmemoryPool pool,
                                          CUmemAllocationHandleType type,
                                          unsigned long long flags) {
  if (const CUresult r = ready_for_sharing(); r != CUDA_SUCCESS) return r;
  if (out == nullptr || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  PoolFile content;
  int device = 0;
  if (const CUresult r = name_of(pool, &device, &content.name); r != CUDA_SUCCESS) return r;
  content.identity = Driver::instance().device(device).config().identity;
  UniqueFd file(::memfd_create("vgpu-memory-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid() || ::write(file.get(), &content, sizeof(content)) != sizeof(content) ||
      ::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *static_cast<int*>(out) = file.release();
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* out, void* descriptor,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  if (const CUresult r = ready_for_sharing(); r != CUDA_SUCCESS) return r;
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  PoolFile content;
  if (!read_file(static_cast<int>(reinterpret_cast<intptr_t>(descriptor)), &content))
    return CUDA_ERROR_INVALID_VALUE;
  for (int device = 0; device < Driver::instance().device_count(); ++device) {
    if (Driver::instance().device(device).config().identity != content.identity) continue;
    uint64_t id = 0;
    const CUresult result = pools()->import_pool(device, content.name, &id);
    if (result == CUDA_SUCCESS) *out = DevicePools::handle(id);
    return result;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr address) {
  if (const CUresult r = ready_for_sharing(); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  PoolName name;
  int device = 0;
  if (const CUresult r = pools()->exported_from(address, &device, &name); r != CUDA_SUCCESS)
    return r;
  MemorySpace::SharedBlock block;
  if (!Driver::instance().device(device).memory().share(address, &block))
    return CUDA_ERROR_OUT_OF_MEMORY;
  const PointerData data{name.secret_low, name.secret_high, softgpu::PeerBlock::of(block)};
  *out = {};
  std::memcpy(out, &data, sizeof(data));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool pool,
                                CUmemPoolPtrExportData* exported) {
  if (const CUresult r = ready_for_sharing(); r != CUDA_SUCCESS) return r;
  if (out == nullptr || exported == nullptr) return CUDA_ERROR_INVALID_VALUE;
  PointerData data;
  std::memcpy(static_cast<void*>(&data), exported, sizeof(data));
  int device = 0;
  if (const CUresult r =
          pools()->check_import(id_of(pool), {0, data.pool_low, data.pool_high}, &device);
      r != CUDA_SUCCESS) {
    return r;
  }
  MemorySpace& memory = Driver::instance().device(device).memory();
  const uint64_t address = data.block.open(memory, 0);
  if (address == 0) return CUDA_ERROR_INVALID_VALUE;
  memory.set_pooled(address, data.block.bytes);
  const CUresult result = pools()->adopt(id_of(pool), address, data.block.bytes);
  if (result == CUDA_SUCCESS)
    *out = address;
  else
    (void)memory.close_peer(address);
  return result;
}

}  // namespace vgpu::driver
