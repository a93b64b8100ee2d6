// Physical memory that other processes can have: each allocation in a file of its own.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>

#include "softgpu/exec/physical_memory.h"
#include "softgpu/exec/shared_pages.h"

namespace vgpu::softgpu {

// From its place in the common file, under all that is mapped of it.
bool PhysicalMemory::move_to_own_file(uint64_t key, Allocation* allocation) {
  Result<UniqueFd> file = make_shared_pages(allocation->bytes, nullptr, identity_);
  if (!file.ok()) return false;
  void* const source = ::mmap(nullptr, allocation->bytes, PROT_READ, MAP_SHARED, file_.get(),
                              static_cast<off_t>(key));
  if (source == MAP_FAILED) return false;
  std::vector<MovedMapping> mappings;
  for (const auto& [address, mapping] : addresses_->mappings_) {
    if (mapping.memory == this && mapping.key == key)
      mappings.push_back({address, mapping.protection()});
  }
  const bool moved = move_to_shared_pages(file->get(), reinterpret_cast<uint64_t>(source),
                                          allocation->bytes, mappings);
  ::munmap(source, allocation->bytes);
  if (!moved) return false;
  allocation->own = std::move(file).value();
  // The place stays taken, since it is the key; its pages go.
  ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(key),
              static_cast<off_t>(allocation->bytes));
  return true;
}

int PhysicalMemory::export_file(uint64_t key) {
  std::lock_guard<std::mutex> addresses(addresses_->address_mutex_);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = allocations_.find(key);
  if (found == allocations_.end()) return -1;
  if (!found->second.own.valid() && !move_to_own_file(key, &found->second)) return -1;
  return ::fcntl(found->second.own.get(), F_DUPFD_CLOEXEC, 0);
}

std::optional<uint64_t> PhysicalMemory::import_file(int file) {
  int identity = 0;
  const uint64_t bytes = shared_pages_bytes(file, nullptr, &identity);
  if (identity != identity_ || bytes == 0 || bytes % kGranularity != 0) return std::nullopt;
  UniqueFd own(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (!own.valid()) return std::nullopt;
  std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t key = next_foreign_++;
  Allocation& made = allocations_[key];
  made.bytes = bytes;
  made.references = 1;
  made.own = std::move(own);
  made.in_common = made.counted = false;
  return key;
}

}  // namespace vgpu::softgpu
