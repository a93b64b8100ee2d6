// Memory of cuMemHostAlloc: the guest's own pages, at the same address here.
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <cerrno>

#include "server/log.h"
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

constexpr int kDescriptorTimeoutMs = 2000;  // it was sent before the command: it is here or never
constexpr uint64_t kPage = 4096;

bool inside(const protocol::AddressRange& range, uint64_t address, uint64_t bytes) {
  return bytes > 0 && bytes <= range.bytes && address >= range.base &&
         address - range.base <= range.bytes - bytes;
}

// Puts the guest's pages in place of our reservation.
Status map_guest_pages(Session& session, uint64_t address, uint64_t bytes) {
  auto received = session.channel().transport().receive_descriptor(kDescriptorTimeoutMs);
  if (!received.ok()) return received.status();
  if (received->second != address) {
    return Status(StatusCode::kMalformed, "descriptor for another address");
  }
  VGPU_RETURN_IF_ERROR(protocol::check_sealed_memory(received->first.get(), bytes));
  void* place = mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, received->first.get(), 0);
  if (place == MAP_FAILED) return Status::from_errno(errno, "mmap");
  return ok_status();
}

void restore_reservation(uint64_t address, uint64_t bytes) {
  (void)mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace

bool handle_HostMap(Session& session, const wire::HostMapArgs& args, const Record& record) {
  const bool shared = session.channel().transport().same_address_space();
  if (args.address % kPage != 0 || args.bytes % kPage != 0 || args.bytes == 0) {
    return session.malformed(record, "alignment");
  }
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  if (!shared && !inside(session.config().host_range, args.address, args.bytes)) {
    return session.malformed(record, "outside the range for host memory");
  }
  if (!session.host_memory().fits(args.bytes)) {
    // Its descriptor is on its way, and must not be taken for the next one's.
    if (!shared) (void)session.channel().transport().receive_descriptor(kDescriptorTimeoutMs);
    return session.complete(record, CUDA_ERROR_OUT_OF_MEMORY, nullptr, 0);
  }
  if (!session.host_memory().begin_map(args.address, args.bytes)) {
    return session.malformed(record, "already mapped");
  }
  if (!shared) {
    if (Status mapped = map_guest_pages(session, args.address, args.bytes); !mapped.ok()) {
      log(Level::kWarn, "host memory: %s", mapped.to_string().c_str());
      return session.malformed(record, "descriptor");
    }
  }
  session.pool().post([&session, args, shared, spare = session.spare(), reply = record.reply()] {
    constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    // With unified addressing memory of cuMemHostAlloc is all contexts', whatever was asked for.
    const unsigned flags = (args.flags & kFlags) | CU_MEMHOSTREGISTER_PORTABLE;
    const CUresult result = session.make_at_home(spare, [&] {
      return session.driver().cuMemHostRegister_v2(reinterpret_cast<void*>(args.address),
                                                   args.bytes, flags);
    });
    if (result != CUDA_SUCCESS && !shared) restore_reservation(args.address, args.bytes);
    session.host_memory().end_map(args.address, result == CUDA_SUCCESS);
    session.channel().replies().complete(reply, result);
  });
  return true;
}

bool handle_HostUnmap(Session& session, const wire::HostUnmapArgs& args, const Record& record) {
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  uint64_t bytes = 0;
  if (!session.host_memory().begin_unmap(args.address, &bytes)) {
    return session.malformed(record, "unknown block");
  }
  session.pool().post(session.behind_all(
      [&session, address = args.address, bytes, reply = record.reply()](CUresult work) {
        const CUresult result = session.end_at_home(
            [&] { return session.driver().cuMemHostUnregister(reinterpret_cast<void*>(address)); });
        if (!session.channel().transport().same_address_space())
          restore_reservation(address, bytes);
        session.host_memory().end_unmap(address);
        session.channel().replies().complete(reply, result == CUDA_SUCCESS ? work : result);
      }));
  return true;
}

}  // namespace vgpu::server
