// Devices, address range and snapshots for a guest.
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
    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
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

// What needs memory of the program's own in the worker, which guests on another host and in
// machines have not. Of managed memory the guest's side says so itself.
constexpr CUdevice_attribute kOfHostMemory[] = {
    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
    CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED,
};

// What needs pages or descriptors that both sides have, which no guest on another host has.
constexpr CUdevice_attribute kNotRemote[] = {
    CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
    CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
    CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
};

// What guests of one process do not share with others (docs/decisions/0045-packed-mode.md).
constexpr CUdevice_attribute kNotPacked[] = {
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
    CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
};

void take_away(std::span<const CUdevice_attribute> attributes,
               std::vector<protocol::DeviceSnapshot>* devices) {
  for (protocol::DeviceSnapshot& device : *devices) {
    for (const CUdevice_attribute attribute : attributes) device.attributes[attribute] = 0;
  }
}

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

Result<std::unique_ptr<Device>> Device::inspect(const DriverTable* driver, CUdevice number) {
  std::unique_ptr<Device> device(new Device(driver, number));
  char name[256] = {};
  (void)driver->cuDeviceGetName(name, sizeof(name) - 1, number);
  device->name_ = name;
  size_t bytes = 0;
  const CUresult result = driver->cuDeviceTotalMem_v2(&bytes, number);
  if (result != CUDA_SUCCESS) return failed(*driver, "cuDeviceTotalMem", result);
  device->memory_bytes_ = bytes;
  device->virtual_memory_ = device->has_virtual_memory();
  device->shares_memory_ = device->virtual_memory_ && device->can_share();
  return device;
}

bool Device::has_virtual_memory() const {
  int supported = 0;
  (void)driver_->cuDeviceGetAttribute(
      &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, number_);
  if (supported == 0 || driver_->cuMemAddressReserve == nullptr ||
      driver_->cuMemCreate == nullptr || driver_->cuMemMap == nullptr ||
      driver_->cuMemSetAccess == nullptr || driver_->cuMemUnmap == nullptr ||
      driver_->cuMemRelease == nullptr || driver_->cuMemGetAllocationGranularity == nullptr) {
    return false;
  }
  const CUmemAllocationProp properties = memory_properties(number_);
  size_t granularity = 0;
  const CUresult result = driver_->cuMemGetAllocationGranularity(&granularity, &properties,
                                                                 CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  // Some vGPU profiles say they can and then refuse this call.
  return result == CUDA_SUCCESS && granularity != 0 && kHandleBytes % granularity == 0;
}

bool Device::can_share() const {
  int descriptors = 0;
  (void)driver_->cuDeviceGetAttribute(
      &descriptors, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, number_);
  return descriptors != 0 && driver_->cuMemExportToShareableHandle != nullptr &&
         driver_->cuMemImportFromShareableHandle != nullptr &&
         driver_->cuMemRetainAllocationHandle != nullptr;
}

CUresult Device::open() {
  std::lock_guard lock(mutex_);
  CUcontext context = primary_.load(std::memory_order_relaxed);
  if (context == nullptr) {
    const CUresult result = driver_->cuDevicePrimaryCtxRetain(&context, number_);
    if (result != CUDA_SUCCESS) return result;
  }
  const CUresult result = driver_->cuCtxSetCurrent(context);
  // release: partner is primary().
  if (result == CUDA_SUCCESS) primary_.store(context, std::memory_order_release);
  return result;
}

void Device::close() {
  std::lock_guard lock(mutex_);
  std::lock_guard life(lives_);
  if (primary_.exchange(nullptr) != nullptr && driver_->cuDevicePrimaryCtxRelease_v2 != nullptr)
    (void)driver_->cuDevicePrimaryCtxRelease_v2(number_);
}

DeviceIdentity Device::identity() const {
  DeviceIdentity identity;
  CUuuid uuid{};
  if (driver_->cuDeviceGetUuid_v2 != nullptr &&
      driver_->cuDeviceGetUuid_v2(&uuid, number_) == CUDA_SUCCESS) {
    std::memcpy(identity.uuid.data(), uuid.bytes, identity.uuid.size());
  }
  char pci[32] = {};
  if (driver_->cuDeviceGetPCIBusId(pci, sizeof(pci) - 1, number_) == CUDA_SUCCESS) {
    identity.pci_bus_id = pci;
  }
  return identity;
}

Result<Devices> Devices::open(const DriverTable* driver, const std::string& list) {
  Devices opened;
  opened.driver_ = driver;
  CUresult result = driver->cuInit(0);
  if (result != CUDA_SUCCESS) return failed(*driver, "cuInit", result);
  int count = 0;
  result = driver->cuDeviceGetCount(&count);
  if (result != CUDA_SUCCESS) return failed(*driver, "cuDeviceGetCount", result);
  if (count == 0) return Status(StatusCode::kUnavailable, "the driver has no device");
  (void)driver->cuDriverGetVersion(&opened.driver_version_);
  std::vector<std::unique_ptr<Device>> all;
  std::vector<DeviceIdentity> identities;
  for (int i = 0; i < count; ++i) {
    CUdevice number = 0;
    result = driver->cuDeviceGet(&number, i);
    if (result != CUDA_SUCCESS) return failed(*driver, "cuDeviceGet", result);
    Result<std::unique_ptr<Device>> device = Device::inspect(driver, number);
    if (!device.ok()) return device.status();
    identities.push_back((*device)->identity());
    all.push_back(std::move(device).value());
  }
  Result<std::vector<uint32_t>> served = list_devices(identities, list);
  if (!served.ok()) return served.status();
  for (const uint32_t index : *served) {
    if (opened.count() < protocol::kDevicesMax) opened.devices_.push_back(std::move(all[index]));
  }
  result = opened.first().open();
  if (result != CUDA_SUCCESS) return failed(*driver, "cuDevicePrimaryCtxRetain", result);
  return opened;
}

Status Devices::grant(const std::vector<DeviceGrant>& grants) {
  std::vector<std::unique_ptr<Device>> chosen;
  for (const DeviceGrant& each : grants) {
    if (at(each.device) == nullptr)
      return Status(StatusCode::kMalformed, "a grant of a device that is not served");
    chosen.push_back(std::move(devices_[each.device]));
    chosen.back()->grant_bytes = each.bytes;
  }
  if (chosen.empty()) return Status(StatusCode::kMalformed, "a grant of no device");
  for (const auto& device : devices_) {
    if (device != nullptr) device->close();
  }
  devices_ = std::move(chosen);
  // The guest opens the others itself, when it uses them.
  for (size_t i = 1; i < count(); ++i) devices_[i]->close();
  const CUresult result = first().open();
  return result == CUDA_SUCCESS ? ok_status()
                                : failed(*driver_, "cuDevicePrimaryCtxRetain", result);
}

Status Devices::grant_all(uint64_t bytes) {
  std::vector<DeviceGrant> grants;
  for (uint32_t i = 0; i < count(); ++i) grants.push_back({i, bytes});
  return grant(grants);
}

// One device without makes all go the other way: there is one kind of allocator.
bool Devices::virtual_memory() const {
  return std::all_of(devices_.begin(), devices_.end(),
                     [](const auto& device) { return device->virtual_memory(); });
}

// A busy range comes back elsewhere with success, or as an error: both mean no.
bool Devices::reserve(const protocol::AddressRange& range) {
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

protocol::AddressRange Devices::reserve_here(uint64_t bytes) {
  CUdeviceptr address = 0;
  if (!virtual_memory() || driver_->cuMemAddressReserve(&address, bytes, 0, 0, 0) != CUDA_SUCCESS) {
    return {};
  }
  reserved_ = {address, bytes};
  return reserved_;
}

bool Devices::shares_memory() const {
  return std::all_of(devices_.begin(), devices_.end(),
                     [](const auto& device) { return device->shares_memory(); });
}

int Devices::find(const std::array<uint8_t, 16>& uuid) const {
  const auto found = std::find_if(devices_.begin(), devices_.end(), [&](const auto& device) {
    return device->identity().uuid == uuid;
  });
  return found == devices_.end() ? -1 : static_cast<int>(found - devices_.begin());
}

void Devices::drop_reservation() {
  if (reserved_.bytes != 0) (void)driver_->cuMemAddressFree(reserved_.base, reserved_.bytes);
  reserved_ = {};
}

void Devices::give_back() {
  drop_reservation();
  for (const auto& device : devices_) {
    if (device != nullptr) device->close();
  }
}

void Devices::reserve_ahead() {
  if (!virtual_memory()) return;
  for (uint64_t base : kDeviceRangeBases) {
    if (reserve({base, kDeviceRangeBytes})) return;
  }
  log(Level::kInfo, "the driver gives none of our address ranges: slabs are lent instead");
}

void Devices::choose_range(const protocol::Hello& hello, protocol::HelloReply* reply) {
  reply->device_range = {};
  const auto& offered = hello.device_ranges;
  if ((hello.flags & protocol::kHelloForwardAllocator) != 0) {
    reply->allocator = protocol::AllocatorMode::kForward;
    return;
  }
  const bool possible = virtual_memory();
  if (reserved_.bytes != 0 &&
      (!possible || std::find(offered.begin(), offered.end(), reserved_) == offered.end())) {
    drop_reservation();
  }
  for (const protocol::AddressRange& range : offered) {
    if (!possible || reserved_.bytes != 0) break;
    if (is_ours(range)) reserve(own_part(range));
  }
  if (reserved_.bytes != 0) {
    reply->allocator = protocol::AllocatorMode::kReserved;
    reply->device_range = reserved_;
  } else {
    reply->allocator = protocol::AllocatorMode::kSlabs;
  }
}

void Device::add_peer_facts(const Device& other, bool shared_context,
                            std::vector<int32_t>* facts) const {
  int can = 0;
  if (&other != this && !shared_context && driver_->cuDeviceCanAccessPeer != nullptr)
    (void)driver_->cuDeviceCanAccessPeer(&can, number_, other.number_);
  facts->push_back(can);
  for (int i = 1; i < protocol::kPeerFacts; ++i) {
    int value = protocol::kPeerFactUnknown;
    if (&other == this || driver_->cuDeviceGetP2PAttribute == nullptr ||
        driver_->cuDeviceGetP2PAttribute(&value, static_cast<CUdevice_P2PAttribute>(i), number_,
                                         other.number_) != CUDA_SUCCESS) {
      value = protocol::kPeerFactUnknown;
    }
    facts->push_back(value);
  }
}

protocol::DeviceSnapshot Device::snapshot() const {
  protocol::DeviceSnapshot snapshot;
  snapshot.name = name_;
  const DeviceIdentity who = identity();
  snapshot.uuid = who.uuid;
  snapshot.pci_bus_id = who.pci_bus_id;
  const int count = std::min<int>(CU_DEVICE_ATTRIBUTE_MAX, protocol::kDeviceAttributesMax);
  for (int i = 0; i < count; ++i) {
    int value = 0;
    if (i == 0 || driver_->cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(i),
                                                number_) != CUDA_SUCCESS) {
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
  snapshot.attributes[CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES] =
      shares_memory_ ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
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

protocol::HelloReply make_reply(Devices* devices, const protocol::Hello& hello, uint64_t session,
                                const std::string& driver_name) {
  protocol::HelloReply reply;
  reply.wire_hash = kWireHash;
  reply.server_version = kServerVersion;
  reply.driver = driver_name;
  reply.driver_version = devices->driver_version();
  reply.session = session;
  reply.server_pid = getpid();
  reply.memory_bytes = devices->first().grant_bytes;
  for (size_t i = 0; i < devices->count(); ++i) {
    const Device& device = *devices->at(i);
    reply.devices.push_back(device.snapshot());
    for (size_t other = 0; other < devices->count(); ++other)
      device.add_peer_facts(*devices->at(other), devices->is_shared(), &reply.devices.back().peers);
  }
  const bool remote = (hello.flags & protocol::kHelloRemote) != 0;
  if (remote || (hello.flags & protocol::kHelloRegion) != 0)
    take_away(kOfHostMemory, &reply.devices);
  if (remote) take_away(kNotRemote, &reply.devices);
  if (devices->is_shared()) take_away(kNotPacked, &reply.devices);
  devices->choose_range(hello, &reply);
  // Blocks of pools are shared piece by piece, which lent slabs have none of.
  if (reply.allocator != protocol::AllocatorMode::kReserved) {
    for (protocol::DeviceSnapshot& device : reply.devices)
      device.attributes[CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES] = 0;
  }
  return reply;
}

bool passes_descriptors(const protocol::HelloReply& reply) {
  return reply.devices.empty() ||
         reply.devices[0].attributes[CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] != 0;
}

protocol::AddressRange claim_host_range(const Devices& devices, const protocol::Hello& hello,
                                        const protocol::AddressRange& device_range) {
  for (const protocol::AddressRange& offered : hello.device_ranges) {
    if (!is_ours(offered)) continue;
    if (device_range.bytes != 0 && device_range != devices.own_part(offered)) continue;
    const protocol::AddressRange range = devices.own_part(protocol::host_range_behind(offered));
    void* wanted = reinterpret_cast<void*>(range.base);
    void* got = mmap(wanted, range.bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == wanted) return range;
    if (got != MAP_FAILED) munmap(got, range.bytes);
  }
  log(Level::kWarn, "the address ranges for host memory are taken in this process");
  return {};
}

void give_back_host_range(const protocol::AddressRange& range) {
  if (range.bytes != 0) (void)munmap(reinterpret_cast<void*>(range.base), range.bytes);
}

}  // namespace vgpu::server
