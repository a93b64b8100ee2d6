// cuImportExternalMemory and its kin, of descriptors of cuMemExportToShareableHandle. All of it is
// mapped once, when it is imported; buffers are places in it.
// SPDX-License-Identifier: Apache-2.0
#include "api/external/external_memory.h"

#include <cudaProfiler.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "api/vmm/rules.h"
#include "base/slot_map.h"
#include "driver_functions.h"

namespace vgpu::external {
namespace {

constexpr uint64_t kExternalTag = 42;

struct Memory {
  CUdeviceptr base = 0;
  uint64_t bytes = 0;    // mapped
  uint64_t size = 0;     // as the program has said
  uint32_t buffers = 0;  // that are not freed
  bool destroyed = false;
};

// Of the process; never destroyed, as calls come after static destructors.
struct Table {
  std::mutex mutex;
  SlotMap<Memory, kExternalTag> memories;
  struct Buffers {
    uint64_t memory = 0;
    uint32_t count = 0;  // of this address
  };
  std::map<CUdeviceptr, Buffers> buffers;
};

Table& table() {
  static auto* const all = new Table;  // NOLINT: see above
  return *all;
}

// Whether there is a driver to ask.
CUresult ready() {
  int count = 0;
  return driver::cuDeviceGetCount(&count);
}

uint64_t id_of(CUexternalMemory handle) { return reinterpret_cast<uint64_t>(handle); }

// Reserved, mapped, to be read and written. What was done is undone when something fails.
CUresult map_all(CUmemGenericAllocationHandle handle, uint64_t bytes, CUdeviceptr* base) {
  CUresult result = driver::cuMemAddressReserve(base, bytes, 0, 0, 0);
  if (result != CUDA_SUCCESS) return result;
  result = driver::cuMemMap(*base, bytes, 0, handle, 0);
  if (result == CUDA_SUCCESS) {
    CUdevice device = 0;  // without a context: the first
    (void)driver::cuCtxGetDevice(&device);
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {device}},
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    result = driver::cuMemSetAccess(*base, bytes, &access, 1);
    if (result != CUDA_SUCCESS) (void)driver::cuMemUnmap(*base, bytes);
  }
  if (result != CUDA_SUCCESS) (void)driver::cuMemAddressFree(*base, bytes);
  return result;
}

// Under the table's lock. What nobody has any more is taken out, to be unmapped without the lock:
// that waits for work.
std::optional<Memory> take_if_unused(uint64_t id) {
  const Memory* memory = table().memories.find(id);
  if (!memory->destroyed || memory->buffers != 0) return std::nullopt;
  const Memory unused = *memory;
  table().memories.remove(id);
  return unused;
}

void unmap(const std::optional<Memory>& unused) {
  if (!unused.has_value()) return;
  (void)driver::cuMemUnmap(unused->base, unused->bytes);
  (void)driver::cuMemAddressFree(unused->base, unused->bytes);
}

Memory* find(CUexternalMemory handle) {
  Memory* memory = table().memories.find(id_of(handle));
  return memory != nullptr && !memory->destroyed ? memory : nullptr;
}

CUresult check(const CUDA_EXTERNAL_MEMORY_HANDLE_DESC& description) {
  const bool known = description.type >= CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD &&
                     description.type <= 9;  // older headers know fewer
  if (!known || description.size == 0 || (description.flags & ~CUDA_EXTERNAL_MEMORY_DEDICATED) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return description.type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ? CUDA_SUCCESS
                                                                      : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

bool free_buffer(CUdeviceptr address) {
  std::optional<Memory> unused;
  {
    std::lock_guard lock(table().mutex);
    const auto found = table().buffers.find(address);
    if (found == table().buffers.end()) return false;
    const uint64_t id = found->second.memory;
    if (--found->second.count == 0) table().buffers.erase(found);
    --table().memories.find(id)->buffers;
    unused = take_if_unused(id);
  }
  unmap(unused);
  return true;
}

}  // namespace vgpu::external

namespace vgpu::driver {

using external::Memory;
using external::table;

CUresult cuImportExternalMemory(CUexternalMemory* out,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description) {
  if (const CUresult r = external::ready(); r != CUDA_SUCCESS) return r;
  CUmemGenericAllocationHandle handle = 0;
  if (out == nullptr || description == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = external::check(*description); r != CUDA_SUCCESS) return r;
  const int file = description->handle.fd;
  CUresult result = driver::cuMemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<intptr_t>(file)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result != CUDA_SUCCESS) return result;
  Memory made;
  made.bytes = vmm::whole_granules(description->size);
  made.size = description->size;
  result = external::map_all(handle, made.bytes, &made.base);
  (void)driver::cuMemRelease(handle);  // the mapping keeps the memory
  if (result != CUDA_SUCCESS) return result;
  std::lock_guard lock(table().mutex);
  const uint64_t id = table().memories.insert(made);
  if (id == 0) {
    (void)driver::cuMemUnmap(made.base, made.bytes);
    (void)driver::cuMemAddressFree(made.base, made.bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  (void)::close(file);  // it is ours now
  *out = reinterpret_cast<CUexternalMemory>(id);
  return CUDA_SUCCESS;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr* out, CUexternalMemory handle,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* description) {
  if (const CUresult r = external::ready(); r != CUDA_SUCCESS) return r;
  if (out == nullptr || description == nullptr || description->flags != 0 || description->size == 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(table().mutex);
  Memory* memory = external::find(handle);
  if (memory == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (description->offset > memory->size ||
      description->size > memory->size - description->offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ++memory->buffers;
  const CUdeviceptr address = memory->base + description->offset;
  auto& buffers = table().buffers[address];
  buffers.memory = external::id_of(handle);
  ++buffers.count;
  *out = address;
  return CUDA_SUCCESS;
}

CUresult cuDestroyExternalMemory(CUexternalMemory handle) {
  if (const CUresult r = external::ready(); r != CUDA_SUCCESS) return r;
  std::optional<Memory> unused;
  {
    std::lock_guard lock(table().mutex);
    Memory* memory = external::find(handle);
    if (memory == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    memory->destroyed = true;
    unused = external::take_if_unused(external::id_of(handle));
  }
  external::unmap(unused);
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
