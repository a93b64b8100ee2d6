// Memory of cuMemAlloc that other sessions of the same user open, and theirs here.
// SPDX-License-Identifier: Apache-2.0
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {

// The share has references of its own, so that what is freed here lives on with whoever has it.
bool handle_MemShare(Session& session, const wire::MemShareArgs& args, const Record& record) {
  if (!session.config().shares_memory)
    return session.complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
  const int device = session.memory().device_of_linear(args.address, args.bytes);
  // Another thread of the guest may have freed it meanwhile.
  if (device < 0) return session.complete(record, CUDA_ERROR_INVALID_VALUE, nullptr, 0);
  if (args.offset > args.bytes || args.size > args.bytes - args.offset || args.size == 0) {
    return session.malformed(record, "memory that is not the guest's to share");
  }
  auto share = std::make_shared<Share>(&session.driver());
  share->info.kind = ShareKind::kMemory;
  share->info.bytes = args.bytes;
  share->info.offset = args.offset;
  share->info.size = args.size;
  share->info.device = session.config().devices->at(static_cast<size_t>(device))->identity().uuid;
  share->charges =
      session.memory().on(static_cast<uint32_t>(device))->share_charges(args.address, args.bytes);
  for (uint64_t done = 0; done < args.bytes; done += kHandleBytes) {
    CUmemGenericAllocationHandle handle = 0;
    const CUresult result = session.driver().cuMemRetainAllocationHandle(
        &handle, reinterpret_cast<void*>(args.address + done));
    if (result != CUDA_SUCCESS) return session.complete(record, result, nullptr, 0);
    share->handles.push_back(handle);
  }
  const ShareName name = session.shares().add(session.config().number, std::move(share));
  wire::MemShareReply reply;
  reply.session = name.session;
  reply.secret_low = name.secret_low;
  reply.secret_high = name.secret_high;
  const bool named = name != ShareName();
  return session.complete(record, named ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, &reply,
                          sizeof(reply));
}

// A pool is a name only: its blocks are shared one by one.
bool handle_PoolShare(Session& session, const wire::PoolShareArgs& args, const Record& record) {
  if (!session.config().shares_memory)
    return session.complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
  if (session.memory().on(args.device) == nullptr)
    return session.malformed(record, "no such device");
  auto share = std::make_shared<Share>(&session.driver());
  share->info.kind = ShareKind::kPool;
  share->info.device = session.config().devices->at(args.device)->identity().uuid;
  const ShareName name = session.shares().add(session.config().number, std::move(share));
  wire::PoolShareReply reply;
  reply.session = name.session;
  reply.secret_low = name.secret_low;
  reply.secret_high = name.secret_high;
  const bool named = name != ShareName();
  return session.complete(record, named ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, &reply,
                          sizeof(reply));
}

bool handle_MemUnshare(Session& session, const wire::MemUnshareArgs& args, const Record& record) {
  session.shares().remove({session.config().number, args.secret_low, args.secret_high});
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

// For the device that has the memory, and another one that may use it.
static CUresult give_access(Session& session, uint64_t address, uint64_t bytes, uint32_t owner,
                            uint32_t user) {
  CUmemAccessDesc access[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    const Device* device = session.config().devices->at(i == 0 ? owner : user);
    access[i].location = memory_properties(device->number()).location;
    access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  return session.driver().cuMemSetAccess(address, bytes, access, owner == user ? 1 : 2);
}

// Piece by piece; the mappings keep the memory.
static CUresult map_pieces(Session& session, const Fetched& fetched, uint64_t address,
                           uint32_t owner, uint32_t user) {
  const DriverTable& driver = session.driver();
  const uint64_t piece = fetched.info.bytes / fetched.info.files;
  uint64_t done = 0;
  CUresult result = CUDA_SUCCESS;
  for (const CUmemGenericAllocationHandle handle : fetched.handles) {
    result = driver.cuMemMap(address + done, piece, 0, handle, 0);
    if (result != CUDA_SUCCESS) break;
    done += piece;
  }
  if (result == CUDA_SUCCESS)
    result = give_access(session, address, fetched.info.bytes, owner, user);
  if (result != CUDA_SUCCESS && done != 0) (void)driver.cuMemUnmap(address, done);
  return result;
}

bool handle_PeerMap(Session& session, const wire::PeerMapArgs& args, const Record& record) {
  const std::shared_ptr<Fetched> fetched = session.fetched().find(args.number);
  if (fetched == nullptr || fetched->info.kind != ShareKind::kMemory ||
      fetched->info.bytes != fetched->info.files * kHandleBytes) {
    return session.malformed(record, "nothing fetched that is memory");
  }
  const ShareInfo info = fetched->info;
  const int found = session.config().devices->find(info.device);
  if (session.memory().on(args.device) == nullptr)
    return session.malformed(record, "no such device");
  if (found < 0) return session.malformed(record, "memory of no device of the guest's");
  const auto owner = static_cast<uint32_t>(found);
  if (!session.memory().claim(args.address, info.bytes))
    return session.malformed(record, "address range");
  const CUresult result = map_pieces(session, *fetched, args.address, owner, args.device);
  // Without memory for it the guest may make room and try again.
  if (result != CUDA_ERROR_OUT_OF_MEMORY) session.fetched().drop(args.number);
  if (result != CUDA_SUCCESS) {
    session.memory().unclaim(args.address, info.bytes);
    return session.complete(record, result, nullptr, 0);
  }
  session.physical().mappings[args.address] = {info.bytes, nullptr, fetched->charges};
  session.memory().on(owner)->add_global(args.address + info.offset, info.size);
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

}  // namespace vgpu::server
