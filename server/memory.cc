// Device memory of each of the guest's devices: mapping credit, more credit, fences for frees,
// slabs and forwarding. SPDX-License-Identifier: Apache-2.0
#include "server/log.h"
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {
bool handle_MemMap(Session& session, const wire::MemMapArgs& args, const Record& record) {
  DeviceMemory* memory = session.memory().on(args.device);
  if (memory == nullptr) return session.malformed(record, "no such device");
  const CUresult result = memory->map(args.address, args.bytes);
  if (result == CUDA_ERROR_INVALID_ADDRESS_SPACE) {
    return session.malformed(record, "address range or more than the credit");
  }
  return session.complete(record, result, nullptr, 0);
}

// `bytes` counts from the credit that the guest had seen, which may have grown since: near the end
// of the quota the rest of it is backed, and the guest sees from the credit whether that is enough.
bool handle_MemCredit(Session& session, const wire::MemCreditArgs& args, const Record& record) {
  DeviceMemory* memory = session.memory().on(args.device);
  if (memory == nullptr) return session.malformed(record, "no such device");
  const CUresult result = memory->back_more(args.bytes);
  wire::MemCreditReply reply;
  reply.credit = memory->backed_bytes();
  session.channel().semaphores().raise_credit(args.device, reply.credit);
  return session.complete(record, result, &reply, sizeof(reply));
}

// The driver waits for the device inside, so a helper calls it.
bool handle_MemRelease(Session& session, const wire::MemReleaseArgs& args, const Record& record) {
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  DeviceMemory* memory = session.memory().on(args.device);
  if (memory == nullptr) return session.malformed(record, "no such device");
  auto shared = std::make_shared<Charges>();
  if (!memory->release(args.address, args.bytes, shared.get()))
    return session.malformed(record, "not mapped");
  session.pool().post([&session, memory, args, shared, lanes = session.lane_ends(),
                       reply = record.reply()] {
    for (const LanePoint& point : lanes) session.lanes().wait(point);
    const CUresult result =
        session.end_at_home([&] { return session.driver().cuMemUnmap(args.address, args.bytes); });
    if (result == CUDA_SUCCESS) {
      memory->give_back(args.bytes - shared->size() * kHandleBytes);
      shared->clear();
    }
    session.channel().replies().complete(reply, result);
  });
  return true;
}

bool handle_CreditReturn(Session& session, const wire::CreditReturnArgs& args,
                         const Record& record) {
  DeviceMemory* memory = session.memory().on(args.device);
  if (memory == nullptr) return session.malformed(record, "no such device");
  if (!memory->return_credit(args.bytes)) return session.malformed(record, "more than the credit");
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

bool handle_MemRefused(Session& session, const wire::MemRefusedArgs&, const Record& record) {
  session.figures().refused_allocation();
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

bool handle_FreeFence(Session& session, const wire::FreeFenceArgs&, const Record& record) {
  Marks marks;
  (void)session.mark_all(&marks);
  session.fence(std::move(marks), record.sequence());
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

bool handle_SlabLend(Session& session, const wire::SlabLendArgs& args, const Record& record) {
  const Device* device = session.find_device(args.device);
  if (device == nullptr) return session.malformed(record, "no such device");
  CUdeviceptr address = 0;
  const CUresult result = session.in_primary(
      *device, [&] { return session.memory().on(args.device)->allocate(args.bytes, &address); });
  wire::SlabLendReply reply;
  reply.address = address;
  reply.bytes = args.bytes;
  return session.complete(record, result, &reply, sizeof(reply));
}

bool handle_MemAllocForward(Session& session, const wire::MemAllocForwardArgs& args,
                            const Record& record) {
  const Device* device = session.find_device(args.device);
  if (device == nullptr) return session.malformed(record, "no such device");
  CUdeviceptr address = 0;
  const CUresult result = session.in_primary(
      *device, [&] { return session.memory().on(args.device)->allocate(args.bytes, &address); });
  wire::MemAllocForwardReply reply;
  reply.address = address;
  return session.complete(record, result, &reply, sizeof(reply));
}

// The driver waits for the device inside, so a helper calls it. Those that nobody waits for take
// one thread together, lest they take all from those who wait.
bool handle_MemFreeForward(Session& session, const wire::MemFreeForwardArgs& args,
                           const Record& record) {
  const bool waits = record.reply() != protocol::kNoReply;
  if (args.address == 0) {
    if (!waits) return session.malformed(record, "no reply slot");
    session.drop_queue().post([&session, reply = record.reply()] {
      session.channel().replies().complete(reply, CUDA_SUCCESS);
    });
    return true;
  }
  const Device* device = session.find_device(args.device);
  if (device == nullptr) return session.malformed(record, "no such device");
  DeviceMemory* memory = session.memory().on(args.device);
  uint64_t bytes = 0;
  if (!memory->disown(args.address, &bytes)) {
    return session.malformed(record, "unknown allocation");
  }
  auto job = session.behind_all(
      [&session, memory, device, address = args.address, bytes, reply = record.reply()](CUresult) {
        (void)session.driver().cuCtxSetCurrent(device->primary());
        const CUresult result = session.driver().cuMemFree_v2(address);
        if (result == CUDA_SUCCESS) memory->give_back(bytes);
        session.channel().replies().complete(reply, result);
      });
  if (waits) {
    session.pool().post(std::move(job));
  } else {
    session.drop_queue().post(std::move(job));
  }
  return true;
}

bool handle_MemAccess(Session& session, const wire::MemAccessArgs& args, const Record& record) {
  DeviceMemory* memory = session.memory().on(args.device);
  const Device* peer = session.config().devices->at(args.peer);
  if (memory == nullptr || peer == nullptr || args.device == args.peer)
    return session.malformed(record, "no such device");
  // What the driver places goes by contexts (PeerAccess), and by none that a pool could name.
  if (memory->mode() != protocol::AllocatorMode::kReserved) {
    log(Level::kWarn, "cuMemPoolSetAccess: memory is where the driver puts it");
    return session.complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
  }
  return session.complete(record, memory->share(peer->number(), args.enable != 0), nullptr, 0);
}

}  // namespace vgpu::server
