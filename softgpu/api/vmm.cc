// Virtual memory management: addresses, physical memory, and mapping one to the other.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>
#include <sys/mman.h>

#include "driver_functions.h"
#include "softgpu/api/driver.h"

namespace vgpu::driver {
namespace {

using softgpu::Driver;
using softgpu::kGranularity;
using softgpu::MemoryKind;
using softgpu::PhysicalHandle;

// These calls need the driver, but no current context.
CUresult ready_for_vmm() {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  return Driver::instance().device().config().virtual_memory ? CUDA_SUCCESS
                                                             : CUDA_ERROR_NOT_SUPPORTED;
}

bool granular(uint64_t value) { return value % kGranularity == 0; }

// Memory of the first device only: the others say that they have none of this family.
CUresult check_location(const CUmemLocation& location) {
  if (const CUresult result = softgpu::check_device(location.id); result != CUDA_SUCCESS)
    return result;
  return location.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult check_properties(const CUmemAllocationProp* prop) {
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (const CUresult r = check_location(prop->location); r != CUDA_SUCCESS) return r;
  if (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

std::shared_ptr<PhysicalHandle> find_physical(CUmemGenericAllocationHandle handle) {
  return Driver::instance().physical.find(reinterpret_cast<uint64_t*>(handle));
}

// Nothing that runs may still touch what is about to be unmapped.
void finish_current_work() {
  softgpu::Context* context = nullptr;
  if (softgpu::enter_ignoring_errors(&context) == CUDA_SUCCESS) {
    context->device().management().wait_for_all(*context->channel());
  }
}

}  // namespace

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  if (granularity == nullptr || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_properties(prop); result != CUDA_SUCCESS) return result;
  *granularity = kGranularity;
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
  if (out == nullptr || bytes == 0 || !granular(bytes) || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if ((alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  softgpu::Device& device = Driver::instance().device();
  const uint64_t wanted = device.config().contrary ? 0 : hint;
  const uint64_t address = device.physical().reserve_addresses(bytes, alignment, wanted);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  const bool freed = Driver::instance().device().physical().free_addresses(address, bytes);
  return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes,
                     const CUmemAllocationProp* prop, unsigned long long flags) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  if (out == nullptr || bytes == 0 || !granular(bytes) || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_properties(prop); result != CUDA_SUCCESS) return result;
  Driver& driver = Driver::instance();
  const std::optional<uint64_t> offset = driver.device().physical().allocate(bytes);
  if (!offset.has_value()) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t* const handle =
      driver.physical.insert(std::make_shared<PhysicalHandle>(PhysicalHandle{*offset, bytes}));
  if (handle == nullptr) {
    driver.device().physical().release(*offset);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  const auto physical = Driver::instance().physical.remove(reinterpret_cast<uint64_t*>(handle));
  if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Driver::instance().device().physical().release(physical->offset);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  const std::shared_ptr<PhysicalHandle> physical = find_physical(handle);
  if (physical == nullptr || offset != 0 || flags != 0 || bytes != physical->bytes ||
      !granular(address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  softgpu::Device& device = Driver::instance().device();
  if (!device.physical().map(address, bytes, physical->offset)) return CUDA_ERROR_INVALID_VALUE;
  device.memory().add_range(address, bytes, MemoryKind::kVirtual, 0);
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  if (bytes == 0 || !granular(address) || !granular(bytes)) return CUDA_ERROR_INVALID_VALUE;
  finish_current_work();
  softgpu::Device& device = Driver::instance().device();
  std::vector<uint64_t> bases;
  device.physical().each_mapping(address, bytes,
                                 [&bases](uint64_t base, uint64_t) { bases.push_back(base); });
  if (!device.physical().unmap(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  for (const uint64_t base : bases) device.memory().remove_range(base);
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* descriptions,
                        size_t count) {
  if (const CUresult ready = ready_for_vmm(); ready != CUDA_SUCCESS) return ready;
  if (descriptions == nullptr || count == 0 || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& description = descriptions[i];
    if (description.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    if (const CUresult r = check_location(description.location); r != CUDA_SUCCESS) return r;
    int protection = 0;
    switch (description.flags) {
      case CU_MEM_ACCESS_FLAGS_PROT_NONE:
        protection = PROT_NONE;
        break;
      case CU_MEM_ACCESS_FLAGS_PROT_READ:
        protection = PROT_READ;
        break;
      case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
        protection = PROT_READ | PROT_WRITE;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!Driver::instance().device().physical().protect(address, bytes, protection))
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
