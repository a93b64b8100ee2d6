// Device, address range and snapshot for a guest.
// SPDX-License-Identifier: Apache-2.0
#include "server/attach.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "op.h"
#include "server/device_memory.h"
#include "server/log.h"

namespace vgpu::server {

const char kServerVersion[] = VGPU_VERSION;

namespace {

// What guests are not served yet, whatever the device can do.
constexpr CUdevice_attribute kNotServed[] = {
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
    CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH,
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS,
#if CUDA_VERSION >= 12040
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
#endif
#if CUDA_VERSION >= 12080
    CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK,
#endif
};

// Guests have pools of their own, and managed memory in pages that all sides share, whatever the
// device can do.
constexpr CUdevice_attribute kOfOurMaking[] = {
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
    CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
};

Status failed(const DriverTable& driver, const char* what, CUresult result) {
  const char* name = nullptr;
  if (driver.cuGetErrorName != nullptr) (void)driver.cuGetErrorName(result, &name);
  return Status(StatusCode::kUnavailable,
                std::string(what) + ": " +
                    (name != nullptr ? name : std::to_string(static_cast<int>(result))));
}

// A guest may offer any address; only those that we know are ever claimed for it.
bool is_ours(const protocol::AddressRange& range) {
  return range.bytes == kDeviceRangeBytes &&
         std::find(std::begin(kDeviceRangeBases), std::end(kDeviceRangeBases), range.base) !=
             std::end(kDeviceRangeBases);
}

}  // namespace

Result<Device> Device::open(const DriverTable* driver) {
  Device opened;
  opened.driver_ = driver;
  CUresult result = driver->cuInit(0);
  if (result != CUDA_SUCCESS) return failed(*driver, "cuInit", result);
  int count = 0;
  result = driver->cuDeviceGetCount(&count);
  if (result != CUDA_SUCCESS) return failed(*driver, "cuDeviceGetCount", result);
  if (count == 0) return Status(StatusCode::kUnavailable, "the driver has no device");
  (void)driver->cuDriverGetVersion(&opened.driver_version_);
  result = driver->cuDeviceGet(&opened.device_, 0);
  if (result != CUDA_SUCCESS) return failed(*driver, "cuDeviceGet", result);
  char name[256] = {};
  (void)driver->cuDeviceGetName(name, sizeof(name) - 1, opened.device_);
  opened.name_ = name;
  size_t bytes = 0;
  result = driver->cuDeviceTotalMem_v2(&bytes, opened.device_);
  if (result != CUDA_SUCCESS) return failed(*driver, "cuDeviceTotalMem", result);
  opened.memory_bytes_ = bytes;
  result = driver->cuDevicePrimaryCtxRetain(&opened.primary_, opened.device_);
  if (result != CUDA_SUCCESS) return failed(*driver, "cuDevicePrimaryCtxRetain", result);
  result = driver->cuCtxSetCurrent(opened.primary_);
  if (result != CUDA_SUCCESS) return failed(*driver, "cuCtxSetCurrent", result);
  int supported = 0;
  (void)driver->cuDeviceGetAttribute(
      &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, opened.device_);
  opened.virtual_memory_ = supported != 0 && driver->cuMemAddressReserve != nullptr &&
                           driver->cuMemCreate != nullptr && driver->cuMemMap != nullptr &&
                           driver->cuMemSetAccess != nullptr && driver->cuMemUnmap != nullptr &&
                           driver->cuMemRelease != nullptr;
  if (opened.virtual_memory_) {
    const CUmemAllocationProp properties = memory_properties(opened.device_);
    size_t granularity = 0;
    result = driver->cuMemGetAllocationGranularity(&granularity, &properties,
                                                   CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    // Some vGPU profiles say they can and then refuse this call.
    opened.virtual_memory_ =
        result == CUDA_SUCCESS && granularity != 0 && kHandleBytes % granularity == 0;
    int descriptors = 0;
    (void)driver->cuDeviceGetAttribute(
        &descriptors, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        opened.device_);
    opened.shares_memory_ = opened.virtual_memory_ && descriptors != 0 &&
                            driver->cuMemExportToShareableHandle != nullptr &&
                            driver->cuMemImportFromShareableHandle != nullptr &&
                            driver->cuMemRetainAllocationHandle != nullptr;
  }
  return opened;
}

// A busy range comes back elsewhere with success, or as an error: both mean no.
bool Device::reserve(const protocol::AddressRange& range) {
  CUdeviceptr address = 0;
  if (driver_->cuMemAddressReserve(&address, range.bytes, 0, range.base, 0) != CUDA_SUCCESS) {
    return false;
  }
  if (address != range.base) {
    (void)driver_->cuMemAddressFree(address, range.bytes);
    return false;
  }
  reserved_ = range;
  return true;
}

protocol::AddressRange Device::reserve_here(uint64_t bytes) {
  CUdeviceptr address = 0;
  if (!virtual_memory_ || driver_->cuMemAddressReserve(&address, bytes, 0, 0, 0) != CUDA_SUCCESS) {
    return {};
  }
  reserved_ = {address, bytes};
  return reserved_;
}

void Device::drop_reservation() {
  if (reserved_.bytes != 0) (void)driver_->cuMemAddressFree(reserved_.base, reserved_.bytes);
  reserved_ = {};
}

void Device::reserve_ahead() {
  if (!virtual_memory_) return;
  for (uint64_t base : kDeviceRangeBases) {
    if (reserve({base, kDeviceRangeBytes})) return;
  }
  log(Level::kInfo, "the driver gives none of our address ranges: slabs are lent instead");
}

void Device::choose_range(const protocol::Hello& hello, protocol::HelloReply* reply) {
  reply->device_range = {};
  const auto& offered = hello.device_ranges;
  if ((hello.flags & protocol::kHelloForwardAllocator) != 0) {
    reply->allocator = protocol::AllocatorMode::kForward;
    return;
  }
  if (virtual_memory_ && reserved_.bytes != 0 &&
      std::find(offered.begin(), offered.end(), reserved_) == offered.end()) {
    drop_reservation();
  }
  for (const protocol::AddressRange& range : offered) {
    if (!virtual_memory_ || reserved_.bytes != 0) break;
    if (is_ours(range)) reserve(range);
  }
  if (reserved_.bytes != 0) {
    reply->allocator = protocol::AllocatorMode::kReserved;
    reply->device_range = reserved_;
  } else {
    reply->allocator = protocol::AllocatorMode::kSlabs;
  }
}

protocol::DeviceSnapshot Device::snapshot(uint64_t grant_bytes) const {
  protocol::DeviceSnapshot snapshot;
  snapshot.name = name_;
  CUuuid uuid{};
  if (driver_->cuDeviceGetUuid_v2 != nullptr &&
      driver_->cuDeviceGetUuid_v2(&uuid, device_) == CUDA_SUCCESS) {
    std::memcpy(snapshot.uuid.data(), uuid.bytes, snapshot.uuid.size());
  }
  char pci[32] = {};
  if (driver_->cuDeviceGetPCIBusId(pci, sizeof(pci) - 1, device_) == CUDA_SUCCESS) {
    snapshot.pci_bus_id = pci;
  }
  const int count = std::min<int>(CU_DEVICE_ATTRIBUTE_MAX, protocol::kDeviceAttributesMax);
  for (int i = 0; i < count; ++i) {
    int value = 0;
    if (i == 0 || driver_->cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(i),
                                                device_) != CUDA_SUCCESS) {
      value = 0;
    }
    snapshot.attributes.push_back(value);
  }
  for (CUdevice_attribute attribute : kNotServed) {
    if (attribute < count) snapshot.attributes[attribute] = 0;
  }
  for (CUdevice_attribute attribute : kOfOurMaking) {
    if (attribute < count) snapshot.attributes[attribute] = 1;
  }
  snapshot.attributes[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = virtual_memory_;
  snapshot.attributes[CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED] =
      shares_memory_;
  snapshot.attributes[CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED] =
      shares_memory_ && driver_->cuStreamWaitValue32_v2 != nullptr;
  for (int i = 0; i < CU_LIMIT_MAX; ++i) {
    size_t value = 0;
    if (driver_->cuCtxGetLimit(&value, static_cast<CUlimit>(i)) != CUDA_SUCCESS) value = 0;
    snapshot.limits.push_back(value);
  }
  snapshot.memory_bytes = grant_bytes;
  return snapshot;
}

protocol::HelloReply make_reply(Device* device, const protocol::Hello& hello, uint64_t grant_bytes,
                                uint64_t session, const std::string& driver_name) {
  protocol::HelloReply reply;
  reply.wire_hash = kWireHash;
  reply.server_version = kServerVersion;
  reply.driver = driver_name;
  reply.driver_version = device->driver_version();
  reply.session = session;
  reply.server_pid = getpid();
  reply.memory_bytes = grant_bytes;
  reply.devices.push_back(device->snapshot(grant_bytes));
  device->choose_range(hello, &reply);
  return reply;
}

protocol::AddressRange claim_host_range(const protocol::Hello& hello,
                                        const protocol::AddressRange& device_range) {
  for (const protocol::AddressRange& offered : hello.device_ranges) {
    if (!is_ours(offered) || (device_range.bytes != 0 && device_range != offered)) continue;
    const protocol::AddressRange range = protocol::host_range_behind(offered);
    void* wanted = reinterpret_cast<void*>(range.base);
    void* got = mmap(wanted, range.bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == wanted) return range;
    if (got != MAP_FAILED) munmap(got, range.bytes);
  }
  log(Level::kWarn, "the address ranges for host memory are taken in this process");
  return {};
}

}  // namespace vgpu::server
