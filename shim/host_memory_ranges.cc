// Places for host memory that guest and worker see at the same address.
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <cerrno>
#include <mutex>

#include "protocol/transport/transport.h"
#include "shim/host_memory.h"

namespace vgpu::shim {

Result<UniqueFd> HostMemory::map(uint64_t bytes, HostBlock* block) {
  block->mapped_bytes = (bytes + 4095) & ~uint64_t{4095};
  Result<UniqueFd> memory = protocol::make_sealed_memory(block->mapped_bytes, "vgpu-host");
  if (!memory.ok()) return memory;
  uint64_t place = 0;
  if (claimed_) {
    std::unique_lock lock(mutex_);
    if (const auto it = returned_.find(block->mapped_bytes); it != returned_.end()) {
      place = it->second;
      returned_.erase(it);
    } else {
      if (block->mapped_bytes > kRangeBytes - used_) {
        return Status(StatusCode::kResourceExhausted, "the range for host memory is used up");
      }
      place = base_ + used_;
      used_ += block->mapped_bytes;
    }
  }
  void* at = ::mmap(reinterpret_cast<void*>(place), block->mapped_bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | (claimed_ ? MAP_FIXED : 0), memory->get(), 0);
  if (at == MAP_FAILED) {
    const Status failed = Status::from_errno(errno, "mmap of host memory");
    std::unique_lock lock(mutex_);
    if (claimed_) returned_.emplace(block->mapped_bytes, place);
    return failed;
  }
  block->address = reinterpret_cast<uint64_t>(at);
  block->bytes = bytes;
  return memory;
}

void HostMemory::unmap(const HostBlock& block) {
  auto* at = reinterpret_cast<void*>(block.address);
  if (!claimed_) {
    ::munmap(at, block.mapped_bytes);
    return;
  }
  void* again = ::mmap(at, block.mapped_bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (again == MAP_FAILED) return;
  std::unique_lock lock(mutex_);
  returned_.emplace(block.mapped_bytes, block.address);
}

bool HostMemory::add(const HostBlock& block) {
  std::unique_lock lock(mutex_);
  auto after = blocks_.lower_bound(block.address);
  if (after != blocks_.end() && after->first < block.address + block.bytes) return false;
  if (after != blocks_.begin()) {
    const HostBlock& before = std::prev(after)->second;
    if (before.address + before.bytes > block.address) return false;
  }
  blocks_.emplace(block.address, block);
  return true;
}

bool HostMemory::remove(uint64_t address, HostKind kind, HostBlock* block) {
  std::unique_lock lock(mutex_);
  const auto it = blocks_.find(address);
  if (it == blocks_.end() || it->second.kind != kind) return false;
  *block = it->second;
  blocks_.erase(it);
  return true;
}

bool HostMemory::find(uint64_t address, HostBlock* block) {
  std::unique_lock lock(mutex_);
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return false;
  --it;
  if (address - it->first >= it->second.bytes) return false;
  *block = it->second;
  return true;
}

}  // namespace vgpu::shim
