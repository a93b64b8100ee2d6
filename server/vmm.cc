// Physical memory that the guest maps itself: created within its quota, mapped in its own range,
// and shared with other sessions of the same user.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "server/physical.h"
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {

bool PhysicalTable::exactly_mapped(uint64_t address, uint64_t bytes) const {
  const uint64_t end = address + bytes;
  if (bytes == 0 || end < address) return false;
  for (auto it = mappings.find(address); it != mappings.end() && it->first == address; ++it) {
    address += it->second.bytes;
    if (address >= end) return address == end;
  }
  return false;
}

void PhysicalTable::release_all(const DriverTable& driver) {
  for (const auto& [address, mapped] : mappings) (void)driver.cuMemUnmap(address, mapped.bytes);
  handles.for_each([&](uint64_t, const Physical& each) { (void)driver.cuMemRelease(each.handle); });
  mappings.clear();
}

// The last step of making one.
static bool keep(Session& session, const Record& record, uint64_t id,
                 std::unique_ptr<Physical> made) {
  const CUmemGenericAllocationHandle handle = made->handle;
  if (session.physical().handles.insert(id, std::move(made)) == nullptr) {
    (void)session.driver().cuMemRelease(handle);
    return session.malformed(record, "id of physical memory");
  }
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

bool handle_PhysicalCreate(Session& session, const wire::PhysicalCreateArgs& args,
                           const Record& record) {
  if (args.bytes == 0 || args.bytes % kHandleBytes != 0)
    return session.malformed(record, "size of physical memory");
  DeviceMemory* memory = session.memory().on(args.device);
  if (memory == nullptr) return session.malformed(record, "no such device");
  const bool shares = args.shares != 0;
  if (!session.memory().maps() || (shares && !session.config().shares_memory))
    return session.complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
  auto made = std::make_unique<Physical>();
  made->charges = {memory->charge_shared(args.bytes)};
  if (made->charges[0] == nullptr)
    return session.complete(record, CUDA_ERROR_OUT_OF_MEMORY, nullptr, 0);
  made->bytes = args.bytes;
  made->device = args.device;
  made->shares = shares;
  const CUmemAllocationProp properties =
      memory_properties(session.config().devices->at(args.device)->number(), shares);
  const CUresult result = session.driver().cuMemCreate(&made->handle, args.bytes, &properties, 0);
  if (result != CUDA_SUCCESS) return session.complete(record, result, nullptr, 0);
  return keep(session, record, args.handle, std::move(made));
}

// The guest sends it when nothing is mapped any more, so the memory goes with the handle.
bool handle_PhysicalRelease(Session& session, const wire::PhysicalReleaseArgs& args,
                            const Record& record) {
  const Physical* found = session.physical().handles.find(args.handle);
  // acquire: partner is the helper that has unmapped it.
  if (found == nullptr || found->mappings->load(std::memory_order_acquire) != 0)
    return session.malformed(record, "unknown or mapped physical memory");
  const std::unique_ptr<Physical> physical = session.physical().handles.take(args.handle);
  session.shares().remove(physical->name);
  return session.complete(record, session.driver().cuMemRelease(physical->handle), nullptr, 0);
}

bool handle_PhysicalMap(Session& session, const wire::PhysicalMapArgs& args, const Record& record) {
  const Physical* physical = session.physical().handles.find(args.handle);
  if (physical == nullptr) return session.malformed(record, "unknown physical memory");
  if (!session.memory().claim(args.address, physical->bytes))
    return session.malformed(record, "address range");
  const CUresult result =
      session.driver().cuMemMap(args.address, physical->bytes, 0, physical->handle, 0);
  if (result == CUDA_SUCCESS) {
    physical->mappings->fetch_add(1, std::memory_order_relaxed);
    session.physical().mappings[args.address] = {physical->bytes, physical->mappings, {}};
  } else {
    session.memory().unclaim(args.address, physical->bytes);
  }
  return session.complete(record, result, nullptr, 0);
}

bool handle_PhysicalAccess(Session& session, const wire::PhysicalAccessArgs& args,
                           const Record& record) {
  if (!session.physical().exactly_mapped(args.address, args.bytes) ||
      (args.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && args.flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
       args.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) {
    return session.malformed(record, "access to what is not mapped");
  }
  DeviceMemory* memory = session.memory().on(args.device);
  if (memory == nullptr) return session.malformed(record, "no such device");
  // Copies are given only what they may write to: a driver may copy on the worker's own threads.
  // What is in flight has been given its memory already, so that goes first.
  if (args.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    memory->remove_global(args.address, args.bytes);
  CUmemAccessDesc access{};
  access.location = memory_properties(session.config().devices->at(args.device)->number()).location;
  access.flags = static_cast<CUmemAccess_flags>(args.flags);
  if (access.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
    // Work that has not been given to the driver yet was given under the earlier rights. For what
    // has, the driver may wait, and that for a command that is still to come: not on this thread.
    session.pool().post(
        [&session, args, access, lanes = session.lane_ends(), reply = record.reply()] {
          for (const LanePoint& point : lanes) session.lanes().wait(point);
          const CUresult result = session.end_at_home([&] {
            return session.driver().cuMemSetAccess(args.address, args.bytes, &access, 1);
          });
          session.channel().replies().complete(reply, result);
        });
    return true;
  }
  const CUresult result = session.driver().cuMemSetAccess(args.address, args.bytes, &access, 1);
  if (result == CUDA_SUCCESS && access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    memory->add_global(args.address, args.bytes);
  return session.complete(record, result, nullptr, 0);
}

// What is in flight may still use it, so a helper waits.
bool handle_PhysicalUnmap(Session& session, const wire::PhysicalUnmapArgs& args,
                          const Record& record) {
  PhysicalTable& table = session.physical();
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  if (!table.exactly_mapped(args.address, args.bytes))
    return session.malformed(record, "not mapped");
  std::vector<std::shared_ptr<std::atomic<uint32_t>>> counts;
  auto charged =
      std::make_shared<Charges>();  // of other sessions' memory, which goes with the mapping
  auto it = table.mappings.find(args.address);
  while (it != table.mappings.end() && it->first < args.address + args.bytes) {
    if (it->second.count != nullptr) counts.push_back(it->second.count);
    charged->insert(charged->end(), it->second.charges.begin(), it->second.charges.end());
    it = table.mappings.erase(it);
  }
  session.memory().unclaim(args.address, args.bytes);
  session.pool().post(session.behind_all([&session, args, counts, charged,
                                          reply = record.reply()](CUresult) {
    const CUresult result =
        session.end_at_home([&] { return session.driver().cuMemUnmap(args.address, args.bytes); });
    if (result == CUDA_SUCCESS) {
      charged->clear();
      // release: partner is the consumer, which may then give the memory back.
      for (const auto& count : counts) count->fetch_sub(1, std::memory_order_release);
    }
    session.channel().replies().complete(reply, result);
  }));
  return true;
}

// A second reference by way of a descriptor: the share may outlive the guest's handle by a moment.
static CUresult second_reference(Session& session, CUmemGenericAllocationHandle handle,
                                 CUmemGenericAllocationHandle* second) {
  constexpr auto kType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  int file = -1;
  const CUresult result = session.driver().cuMemExportToShareableHandle(&file, handle, kType, 0);
  if (result != CUDA_SUCCESS) return result;
  const UniqueFd owned(file);
  return session.driver().cuMemImportFromShareableHandle(
      second, reinterpret_cast<void*>(static_cast<intptr_t>(file)), kType);
}

bool handle_PhysicalExport(Session& session, const wire::PhysicalExportArgs& args,
                           const Record& record) {
  Physical* physical = session.physical().handles.find(args.handle);
  if (physical == nullptr || !physical->shares)
    return session.malformed(record, "memory that cannot be exported");
  if (physical->name == ShareName()) {
    auto share = std::make_shared<Share>(&session.driver());
    share->info.kind = ShareKind::kPhysical;
    share->info.bytes = share->info.size = physical->bytes;
    share->info.device = session.config().devices->at(physical->device)->identity().uuid;
    CUmemGenericAllocationHandle second = 0;
    if (const CUresult result = second_reference(session, physical->handle, &second);
        result != CUDA_SUCCESS) {
      return session.complete(record, result, nullptr, 0);
    }
    share->handles.push_back(second);
    share->charges = physical->charges;
    physical->name = session.shares().add(session.config().number, std::move(share));
  }
  wire::PhysicalExportReply reply;
  reply.session = physical->name.session;
  reply.secret_low = physical->name.secret_low;
  reply.secret_high = physical->name.secret_high;
  const bool named = physical->name != ShareName();
  return session.complete(record, named ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, &reply,
                          sizeof(reply));
}

bool handle_PhysicalImport(Session& session, const wire::PhysicalImportArgs& args,
                           const Record& record) {
  const std::shared_ptr<Fetched> fetched = session.fetched().find(args.number);
  if (fetched == nullptr || fetched->info.kind != ShareKind::kPhysical ||
      fetched->handles.size() != 1 || fetched->info.bytes % kHandleBytes != 0) {
    return session.malformed(record, "nothing fetched that is physical memory");
  }
  const int device = session.config().devices->find(fetched->info.device);
  if (device < 0) return session.malformed(record, "memory of no device of the guest's");
  auto made = std::make_unique<Physical>();
  made->charges = fetched->charges;
  made->bytes = fetched->info.bytes;
  made->device = static_cast<uint32_t>(device);
  made->shares = true;
  made->handle = fetched->handles[0];
  fetched->handles.clear();
  session.fetched().drop(args.number);
  return keep(session, record, args.handle, std::move(made));
}

}  // namespace vgpu::server
