// Virtual memory management: addresses and mappings are the guest's to choose, the worker creates
// the memory.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/vmm/rules.h"
#include "driver_functions.h"
#include "shim/process.h"
#include "shim/share.h"

namespace vgpu::driver {

using shim::enter;
using shim::Session;
using shim::VirtualMemory;
using shim::VirtualPlace;

namespace {

using Lock = std::lock_guard<std::mutex>;

CUresult look_up(Session** session) {
  if (CUresult r = enter(session); r != CUDA_SUCCESS) return r;
  return (*session)->virtual_memory().served() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult check_device_of(const Session& session, const CUmemLocation& location) {
  return session.device(location.id) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult check_location(const Session& session, const CUmemLocation& location) {
  const CUresult result = vmm::check_location(location);
  return result == CUDA_SUCCESS ? check_device_of(session, location) : result;
}

CUresult check_properties(const Session& session, const CUmemAllocationProp* prop) {
  const CUresult result = vmm::check_properties(prop, shim::shares_memory(session));
  return result == CUDA_SUCCESS ? check_device_of(session, prop->location) : result;
}

// Written and forgotten, but for a program with very many mappings: a driver, or the system below
// it, may refuse one more, and then the call is to say so.
template <typename Args>
CUresult tell(Session& session, Op op, const Args& args) {
  constexpr size_t kMappingsTrusted = 16384;
  if (session.virtual_memory().mapping_count() > kMappingsTrusted) [[unlikely]]
    return session.call(nullptr, op, args);
  return session.post(nullptr, op, args) != 0 ? CUDA_SUCCESS : session.lost();
}

void post_release(Session& session, uint64_t handle) {
  wire::PhysicalReleaseArgs args;
  args.handle = handle;
  session.post(nullptr, Op::kPhysicalRelease, args);
}

}  // namespace

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  if (granularity == nullptr || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = check_properties(*session, prop); r != CUDA_SUCCESS) return r;
  *granularity = vmm::kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  if (out == nullptr || flags != 0 || !vmm::reservation_valid(bytes, alignment, hint))
    return CUDA_ERROR_INVALID_VALUE;
  if (!vmm::reservation_fits(bytes, alignment)) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t address = 0;
  const CUresult result = session->virtual_memory().reserve(bytes, alignment, hint, &address);
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  return session->virtual_memory().unreserve(address, bytes);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes,
                     const CUmemAllocationProp* prop, unsigned long long flags) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  if (out == nullptr || bytes == 0 || !vmm::granular(bytes) || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = check_properties(*session, prop); r != CUDA_SUCCESS) return r;
  const CUdevice device = prop->location.id;
  if (bytes > session->guest_device(device).memory().total()) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto types = static_cast<uint64_t>(prop->requestedHandleTypes);
  wire::PhysicalCreateArgs args;
  if (session->full()) return CUDA_ERROR_OUT_OF_MEMORY;
  args.handle = session->virtual_memory().add(bytes, types, device);
  args.bytes = bytes;
  args.shares = types != 0;
  args.device = static_cast<uint32_t>(device);
  if (args.handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = session->call(nullptr, Op::kPhysicalCreate, args);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && session->reclaim(device, bytes))
    result = session->call(nullptr, Op::kPhysicalCreate, args);
  if (result == CUDA_SUCCESS)
    *out = args.handle;
  else
    session->virtual_memory().forget(args.handle);
  return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  const Lock lock(session->virtual_memory().calls);
  bool gone = false;
  const CUresult result = session->virtual_memory().release(handle, &gone);
  if (gone) post_release(*session, handle);
  return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* pointer) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t handle = 0;
  const CUresult result =
      session->virtual_memory().retain(reinterpret_cast<uint64_t>(pointer), &handle);
  if (result == CUDA_SUCCESS) *out = handle;
  return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                CUmemGenericAllocationHandle handle) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  uint64_t types = 0;
  int device = 0;
  if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = session->virtual_memory().handle_types(handle, &types, &device);
      r != CUDA_SUCCESS)
    return r;
  *prop = vmm::properties_of(device, types);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  if (offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(session->virtual_memory().calls);
  if (CUresult r = session->virtual_memory().map(address, bytes, handle); r != CUDA_SUCCESS)
    return r;
  wire::PhysicalMapArgs args;
  args.handle = handle;
  args.address = address;
  const CUresult result = tell(*session, Op::kPhysicalMap, args);
  if (result != CUDA_SUCCESS) (void)session->virtual_memory().unmap(address, bytes);
  return result;
}

// Nothing that runs may still touch what is unmapped, so the worker's answer is waited for.
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  VirtualMemory& memory = session->virtual_memory();
  const Lock lock(memory.calls);
  if (!memory.exactly_mapped(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  memory.close(address, bytes);
  wire::PhysicalUnmapArgs args;
  args.address = address;
  args.bytes = bytes;
  const CUresult result = session->call(nullptr, Op::kPhysicalUnmap, args);
  if (result != CUDA_SUCCESS) return result;
  for (const uint64_t handle : memory.unmap(address, bytes)) post_release(*session, handle);
  return CUDA_SUCCESS;
}

// Where rights go, work that was given under them ends first, so the worker's answer is waited for.
static CUresult tell_access(Session& session, VirtualMemory* memory,
                            const wire::PhysicalAccessArgs& args) {
  const auto change = [&] {
    memory->set_access(args.address, args.bytes, static_cast<CUmemAccess_flags>(args.flags),
                       static_cast<int>(args.device));
  };
  if (args.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    change();
    return session.call(nullptr, Op::kPhysicalAccess, args);
  }
  const CUresult result = tell(session, Op::kPhysicalAccess, args);
  if (result == CUDA_SUCCESS) change();
  return result;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* descriptions,
                        size_t count) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  if (descriptions == nullptr || count == 0 || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  VirtualMemory& memory = session->virtual_memory();
  const Lock lock(memory.calls);
  for (size_t i = 0; i < count; ++i) {
    const auto& [location, flags] = descriptions[i];
    if (CUresult r = check_location(*session, location); r != CUDA_SUCCESS) return r;
    if (!vmm::access_valid(flags) || !memory.exactly_mapped(address, bytes))
      return CUDA_ERROR_INVALID_VALUE;
    const CUdevice device = location.id;
    const auto reaches = [&](int owner) {
      return owner == device || shim::can_access_peer(*session, device, owner);
    };
    if (!memory.all_owners(address, bytes, reaches)) return CUDA_ERROR_INVALID_DEVICE;
    wire::PhysicalAccessArgs args;
    args.address = address;
    args.bytes = bytes;
    args.flags = static_cast<uint32_t>(flags);
    args.device = static_cast<uint32_t>(device);
    if (CUresult r = tell_access(*session, &memory, args); r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = check_location(*session, *location); r != CUDA_SUCCESS) return r;
  VirtualPlace place;
  if (!session->virtual_memory().look(address, &place) || place.bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  *flags = place.flags[static_cast<size_t>(location->id)];
  return CUDA_SUCCESS;
}

// The descriptor holds the name under which the worker gives the memory away.
CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  const Lock lock(session->virtual_memory().calls);
  uint64_t types = 0;
  if (out == nullptr || flags != 0 || type != kDescriptor) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = session->virtual_memory().handle_types(handle, &types); r != CUDA_SUCCESS)
    return r;
  if ((types & kDescriptor) == 0) return CUDA_ERROR_INVALID_VALUE;
  wire::PhysicalExportArgs args;
  args.handle = handle;
  wire::PhysicalExportReply answer;
  if (CUresult r = session->ask(nullptr, Op::kPhysicalExport, args, &answer); r != CUDA_SUCCESS)
    return r;
  session->virtual_memory().set_export_name(handle, answer.secret_low);
  return shim::write_name(*session, {answer.session, answer.secret_low, answer.secret_high},
                          static_cast<int*>(out));
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* descriptor,
                                        CUmemAllocationHandleType type) {
  Session* session;
  if (CUresult r = look_up(&session); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !shim::shares_memory(*session))
    return CUDA_ERROR_NOT_SUPPORTED;
  shim::ShareName name;
  if (!shim::read_name(static_cast<int>(reinterpret_cast<intptr_t>(descriptor)), &name))
    return CUDA_ERROR_INVALID_VALUE;
  shim::FetchedShare fetched;
  if (CUresult r = fetched.fetch(*session, name, shim::kSharedPhysical); r != CUDA_SUCCESS)
    return r;
  wire::PhysicalImportArgs args;
  if (session->full()) return CUDA_ERROR_OUT_OF_MEMORY;
  const bool own = name.session == session->hello().session;
  args.handle = session->virtual_memory().add(fetched.bytes(), type, fetched.device(),
                                              own ? name.secret_low : 0);
  args.number = fetched.number();
  if (args.handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = fetched.use(Op::kPhysicalImport, args);
  if (result == CUDA_SUCCESS)
    *out = args.handle;
  else
    session->virtual_memory().forget(args.handle);
  return result;
}

}  // namespace vgpu::driver
