// Blocks of device memory that several processes have: their pages are files then.
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <iterator>

#include "softgpu/exec/address_range.h"
#include "softgpu/exec/memory_space.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kPage = 4096;

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

// What has to become a file so that the range can be had elsewhere.
bool MemorySpace::pages_of(const MemoryRange& range, uint64_t* first, uint64_t* bytes) const {
  if (range.kind != MemoryKind::kDevice) return false;
  const bool small = is_small(range.held);
  *first = small ? range.base / kChunkBytes * kChunkBytes : range.base / kPage * kPage;
  *bytes = small ? kChunkBytes : round_up(range.base + range.held - *first, kPage);
  return true;
}

bool MemorySpace::share(uint64_t address, SharedBlock* block) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return false;
  const MemoryRange& range = std::prev(next)->second;
  uint64_t first = 0, bytes = 0;
  if (address - range.base >= range.bytes || !pages_of(range, &first, &bytes)) return false;
  auto shared = shared_.find(first);
  if (shared == shared_.end()) {
    SharedPages pages;
    Result<UniqueFd> file = make_shared_pages(bytes, &pages.secret);
    const MovedMapping here{first, PROT_READ | PROT_WRITE};
    if (!file.ok() || !move_to_shared_pages(file->get(), first, bytes, {&here, 1})) return false;
    pages.file = std::move(file).value();
    shared = shared_.emplace(first, std::move(pages)).first;
  }
  *block = {shared->second.file.get(), shared->second.secret, range.base - first, range.bytes};
  return true;
}

uint64_t MemorySpace::open_peer(int file, const SharedBlock& block, uint64_t owner) {
  PagesSecret secret;
  const uint64_t bytes = shared_pages_bytes(file, &secret);
  if (bytes == 0 || secret != block.secret || bytes > kAddressBytesMax || block.bytes == 0 ||
      block.offset >= bytes || block.bytes > bytes - block.offset) {
    return 0;
  }
  const uint64_t span = round_up(bytes, kChunkBytes);
  std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t first = take_pages(span);
  if (first == 0) return 0;
  if (::mmap(reinterpret_cast<void*>(first), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             file, 0) == MAP_FAILED) {
    give_pages(first, span);
    return 0;
  }
  MemoryRange range;
  range.base = first + block.offset;
  range.bytes = block.bytes;
  range.held = span;
  range.kind = MemoryKind::kPeer;
  range.owner = owner;
  insert(range);
  return range.base;
}

bool MemorySpace::close_peer(uint64_t address) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = ranges_.find(address);
  if (found == ranges_.end() || found->second.kind != MemoryKind::kPeer) return false;
  // It was opened at the start of a unit, and no offset reaches beyond the first: chunks and pages.
  give_pages(address / kChunkBytes * kChunkBytes, found->second.held);
  ranges_.erase(found);
  return true;
}

}  // namespace vgpu::softgpu
