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
  if (!shared) {
    if (!inside(session.config().host_range, args.address, args.bytes)) {
      return session.malformed(record, "outside the range for host memory");
    }
    if (session.host_memory().overlaps(args.address, args.bytes)) {
      return session.malformed(record, "already mapped");
    }
    if (Status mapped = map_guest_pages(session, args.address, args.bytes); !mapped.ok()) {
      log(Level::kWarn, "host memory: %s", mapped.to_string().c_str());
      return session.malformed(record, "descriptor");
    }
  }
  constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  const CUresult result = session.driver().cuMemHostRegister_v2(
      reinterpret_cast<void*>(args.address), args.bytes, args.flags & kFlags);
  if (result == CUDA_SUCCESS) {
    session.host_memory().merge(args.address, args.bytes);
    session.host_blocks()[args.address] = args.bytes;
  } else if (!shared) {
    restore_reservation(args.address, args.bytes);
  }
  return session.complete(record, result, nullptr, 0);
}

bool handle_HostUnmap(Session& session, const wire::HostUnmapArgs& args, const Record& record) {
  auto block = session.host_blocks().find(args.address);
  if (block == session.host_blocks().end()) return session.malformed(record, "unknown block");
  const uint64_t bytes = block->second;
  const CUresult result =
      session.driver().cuMemHostUnregister(reinterpret_cast<void*>(args.address));
  session.host_memory().erase(args.address, bytes);
  session.host_blocks().erase(block);
  if (!session.channel().transport().same_address_space()) {
    restore_reservation(args.address, bytes);
  }
  return session.complete(record, result, nullptr, 0);
}

}  // namespace vgpu::server
