// Virtual memory management: addresses, physical memory, and mapping one to the other.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>
#include <sys/mman.h>

#include "api/vmm/rules.h"
#include "driver_functions.h"
#include "softgpu/api/driver.h"

namespace vgpu::softgpu {

uint64_t handle_types_at(uint64_t address) {
  Driver& driver = Driver::instance();
  const uint64_t handle = driver.device().physical().name_at(address);
  const auto found = driver.physical.find(reinterpret_cast<uint64_t*>(handle));
  return found == nullptr ? 0 : found->handle_types;
}

}  // namespace vgpu::softgpu

namespace vgpu::driver {
namespace {

using softgpu::Driver;
using softgpu::MemoryKind;
using softgpu::PhysicalHandle;
using vmm::granular;

using Lock = std::lock_guard<std::mutex>;
using SharedHandle = std::shared_ptr<PhysicalHandle>;

// These calls need the driver, but no current context.
CUresult ready_for_vmm() {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  return Driver::instance().device().config().virtual_memory ? CUDA_SUCCESS
                                                             : CUDA_ERROR_NOT_SUPPORTED;
}

// Addresses are the first device's to keep, whichever device has the memory.
softgpu::PhysicalMemory& addresses() { return Driver::instance().device().physical(); }

softgpu::PhysicalMemory& physical_of(int device) {
  return Driver::instance().device(device).physical();
}

CUresult check_location(const CUmemLocation& location) {
  const CUresult result = vmm::check_location(location);
  return result == CUDA_SUCCESS ? softgpu::check_device(location.id) : result;
}

CUresult check_properties(const CUmemAllocationProp* prop) {
  const CUresult result = vmm::check_properties(prop, true);
  return result == CUDA_SUCCESS ? softgpu::check_device(prop->location.id) : result;
}

uint64_t* pointer_of(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<uint64_t*>(handle);
}

// nullptr: no handle, or a released one.
SharedHandle find_physical(CUmemGenericAllocationHandle handle) {
  SharedHandle found = Driver::instance().physical.find(pointer_of(handle));
  return found != nullptr && found->references != 0 ? found : nullptr;
}

// A handle for new memory, which goes again when there is none.
CUresult name(PhysicalHandle made, CUmemGenericAllocationHandle* out) {
  uint64_t* const handle =
      Driver::instance().physical.insert(std::make_shared<PhysicalHandle>(made));
  if (handle == nullptr) {
    (void)physical_of(made.device).release(made.key);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(handle);
  physical_of(made.device).set_name(made.key, *out);
  return CUDA_SUCCESS;
}

// Nothing that runs may still touch what is about to be unmapped.
void finish_current_work() {
  softgpu::Context* context = nullptr;
  if (softgpu::enter_ignoring_errors(&context) == CUDA_SUCCESS) {
    context->device().management().wait_for_all(*context->channel());
  }
}

int protection_of(CUmemAccess_flags flags) {
  return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE   ? PROT_NONE
         : flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ
                                                  : PROT_READ | PROT_WRITE;
}

// Whether some device may do less there afterwards. Who is only given more need not wait.
bool takes_access(uint64_t address, uint64_t bytes, std::span<const CUmemAccessDesc> descriptions) {
  std::vector<uint64_t> bases;
  addresses().each_mapping(address, bytes,
                           [&bases](uint64_t base, uint64_t, int) { bases.push_back(base); });
  for (const auto& [location, flags] : descriptions) {
    if (check_location(location) != CUDA_SUCCESS) return false;  // refused anyway
    for (const uint64_t base : bases) {
      if ((addresses().protection_at(base, location.id) & ~protection_of(flags)) > 0) return true;
    }
  }
  return false;
}

// Copies may use what some device may write: all of them are this process.
void open_for_copies(uint64_t address, uint64_t bytes) {
  addresses().each_mapping(address, bytes, [](uint64_t base, uint64_t size, int protection) {
    Driver::instance().device().memory().set_open(base, size, (protection & PROT_WRITE) != 0);
  });
}

}  // namespace

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  if (granularity == nullptr || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_properties(prop); result != CUDA_SUCCESS) return result;
  *granularity = vmm::kGranularity;
  return CUDA_SUCCESS;
}

// Only for pages that are a file: managed variables.
CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long flags) {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  if (handle == nullptr || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const int descriptor = Driver::instance().device().memory().descriptor_of(address, bytes);
  if (descriptor < 0) return CUDA_ERROR_NOT_SUPPORTED;
  *static_cast<int*>(handle) = descriptor;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  if (out == nullptr || flags != 0 || !vmm::reservation_valid(bytes, alignment, hint))
    return CUDA_ERROR_INVALID_VALUE;
  if (!vmm::reservation_fits(bytes, alignment)) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t wanted = Driver::instance().device().config().contrary ? 0 : hint;
  const uint64_t address = addresses().reserve_addresses(bytes, alignment, wanted);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  return addresses().free_addresses(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes,
                     const CUmemAllocationProp* prop, unsigned long long flags) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  if (out == nullptr || bytes == 0 || !granular(bytes) || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_properties(prop); result != CUDA_SUCCESS) return result;
  const int device = prop->location.id;
  const std::optional<uint64_t> key = physical_of(device).allocate(bytes);
  if (!key.has_value()) return CUDA_ERROR_OUT_OF_MEMORY;
  return name({device, *key, bytes, static_cast<uint64_t>(prop->requestedHandleTypes)}, out);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  const Lock lock(Driver::instance().virtual_memory);
  const SharedHandle physical = find_physical(handle);
  if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  --physical->references;
  if (physical_of(physical->device).release(physical->key))
    Driver::instance().physical.remove(pointer_of(handle));
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(Driver::instance().virtual_memory);
  const std::optional<uint64_t> handle = addresses().retain(reinterpret_cast<uint64_t>(address));
  if (!handle.has_value()) return CUDA_ERROR_INVALID_VALUE;
  ++Driver::instance().physical.find(pointer_of(*handle))->references;
  *out = *handle;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                CUmemGenericAllocationHandle handle) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  const Lock lock(Driver::instance().virtual_memory);
  const SharedHandle physical = find_physical(handle);
  if (prop == nullptr || physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *prop = vmm::properties_of(physical->device, physical->handle_types);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  const Lock lock(Driver::instance().virtual_memory);
  const SharedHandle physical = find_physical(handle);
  if (physical == nullptr || offset != 0 || flags != 0 || bytes != physical->bytes ||
      !granular(address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!physical_of(physical->device).map(address, bytes, physical->key))
    return CUDA_ERROR_INVALID_VALUE;
  Driver::instance()
      .device(physical->device)
      .memory()
      .add_range(address, bytes, MemoryKind::kVirtual, 0);
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  if (bytes == 0 || !granular(address) || !granular(bytes)) return CUDA_ERROR_INVALID_VALUE;
  finish_current_work();
  const Lock lock(Driver::instance().virtual_memory);
  std::vector<uint64_t> bases, gone;
  addresses().each_mapping(address, bytes,
                           [&bases](uint64_t base, uint64_t, int) { bases.push_back(base); });
  if (!addresses().unmap(address, bytes, &gone)) return CUDA_ERROR_INVALID_VALUE;
  for (const uint64_t base : bases) Driver::instance().device().memory().remove_range(base);
  for (const uint64_t handle : gone) Driver::instance().physical.remove(pointer_of(handle));
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* descriptions,
                        size_t count) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  if (descriptions == nullptr || count == 0 || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  // Copies that run were told that they may.
  if (takes_access(address, bytes, {descriptions, count})) finish_current_work();
  const Lock lock(Driver::instance().virtual_memory);
  for (size_t i = 0; i < count; ++i) {
    const auto& [location, flags] = descriptions[i];
    if (const CUresult r = check_location(location); r != CUDA_SUCCESS) return r;
    if (!vmm::access_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
    if (!addresses().protect(address, bytes, protection_of(flags), location.id))
      return CUDA_ERROR_INVALID_VALUE;
    open_for_copies(address, bytes);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_location(*location); r != CUDA_SUCCESS) return r;
  const int protection = addresses().protection_at(address, location->id);
  if (protection < 0) return CUDA_ERROR_INVALID_VALUE;
  *flags = (protection & PROT_WRITE) != 0  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : (protection & PROT_READ) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                           : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  const Lock lock(Driver::instance().virtual_memory);
  const SharedHandle physical = find_physical(handle);
  if (out == nullptr || physical == nullptr || flags != 0 ||
      type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      (physical->handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int file = physical_of(physical->device).export_file(physical->key);
  if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(out) = file;
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* file,
                                        CUmemAllocationHandleType type) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  // Only the device that has made the memory knows it as its own.
  for (int device = 0; device < Driver::instance().device_count(); ++device) {
    const std::optional<uint64_t> key =
        physical_of(device).import_file(static_cast<int>(reinterpret_cast<intptr_t>(file)));
    if (!key.has_value()) continue;
    const uint64_t bytes = physical_of(device).bytes_of(*key);
    return name({device, *key, bytes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR}, out);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace vgpu::driver
