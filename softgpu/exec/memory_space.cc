// Placement of device memory. Pages come and go by mprotect and mmap over one reservation.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/memory_space.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "softgpu/exec/address_range.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kReservationBytes = kAddressBytesMax;
constexpr uint64_t kReservationBytesMin = 8ull << 30;
// Below 2^47, where neither the loader, the heap nor the usual sanitizers put anything.
constexpr uint64_t kCandidates[] = {0x3000'0000'0000, 0x1000'0000'0000, 0x5800'0000'0000};

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Result<std::unique_ptr<MemorySpace>> MemorySpace::create(DeviceSegment* segment, bool strict,
                                                         int device) {
  std::unique_ptr<MemorySpace> space(new MemorySpace(segment, strict, device));
  for (uint64_t bytes = kReservationBytes; bytes >= kReservationBytesMin; bytes /= 2) {
    uint64_t start = 0;
    for (const uint64_t hint : kCandidates) {
      if ((start = claim_addresses(hint, bytes)) != 0) break;
    }
    if (start == 0) start = claim_addresses(0, bytes);
    if (start == 0) continue;
    space->base_ = start;
    space->bytes_ = bytes;
    const uint64_t first = round_up(start, kChunkBytes);
    space->free_pages_[first] = (start + bytes - first) / kChunkBytes * kChunkBytes;
    return space;
  }
  return Status(StatusCode::kResourceExhausted, "no room for the device's address range");
}

MemorySpace::~MemorySpace() {
  if (base_ != 0) ::munmap(reinterpret_cast<void*>(base_), bytes_);
}

void MemorySpace::insert(const MemoryRange& range) {
  MemoryRange& kept = ranges_[range.base];
  kept = range;
  // Unique among all devices.
  kept.id = static_cast<uint64_t>(device_) << 48 | next_id_++;
  kept.device = device_;
}

// First fit over whole 2 MiB units; the pages are still inaccessible.
uint64_t MemorySpace::take_pages(uint64_t bytes) {
  for (auto block = free_pages_.begin(); block != free_pages_.end(); ++block) {
    if (block->second < bytes) continue;
    const uint64_t address = block->first;
    const uint64_t left = block->second - bytes;
    free_pages_.erase(block);
    if (left != 0) free_pages_[address + bytes] = left;
    return address;
  }
  return 0;
}

void MemorySpace::give_pages(uint64_t address, uint64_t bytes) {
  ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  auto next = free_pages_.lower_bound(address);
  if (next != free_pages_.end() && next->first == address + bytes) {
    bytes += next->second;
    next = free_pages_.erase(next);
  }
  if (next != free_pages_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  free_pages_[address] = bytes;
}

uint64_t MemorySpace::allocate_large(uint64_t bytes) {
  const uint64_t span = round_up(bytes, kChunkBytes);
  if (!segment_->reserve(span)) return 0;
  const uint64_t address = take_pages(span);
  // Only the pages asked for become accessible: a kernel that runs past the end faults.
  if (address != 0 && ::mprotect(reinterpret_cast<void*>(address), round_up(bytes, kPage),
                                 PROT_READ | PROT_WRITE) == 0) {
    // Far fewer page faults and misses of the address cache, where the system has such pages.
    if (span > kChunkBytes) ::madvise(reinterpret_cast<void*>(address), span, MADV_HUGEPAGE);
    return address;
  }
  if (address != 0) give_pages(address, span);
  segment_->release(span);
  return 0;
}

// Pages of a file, so that another process can have them at the same address.
uint64_t MemorySpace::allocate_shared(uint64_t bytes) {
  const uint64_t span = round_up(bytes, kChunkBytes), pages = round_up(bytes, kPage);
  UniqueFd file(::memfd_create("vgpu-managed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid() || ::ftruncate(file.get(), static_cast<off_t>(pages)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
      !segment_->reserve(span)) {
    return 0;
  }
  const uint64_t address = take_pages(span);
  if (address != 0 && ::mmap(reinterpret_cast<void*>(address), pages, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_FIXED, file.get(), 0) != MAP_FAILED) {
    files_[address] = std::move(file);
    return address;
  }
  if (address != 0) give_pages(address, span);
  segment_->release(span);
  return 0;
}

void MemorySpace::free_large(uint64_t address, uint64_t bytes) {
  const uint64_t span = round_up(bytes, kChunkBytes);
  give_pages(address, span);
  segment_->release(span);
}

// Starts at a multiple of 256, as programs may expect, and ends less than 256 bytes before a page
// that is never accessible.
uint64_t MemorySpace::allocate_guarded(uint64_t bytes) {
  constexpr uint64_t kAlignment = 256;
  const uint64_t pages = round_up(bytes, kPage);
  const uint64_t span = round_up(pages + kPage, kChunkBytes);
  if (!segment_->reserve(span)) return 0;
  const uint64_t start = take_pages(span);
  if (start != 0 &&
      ::mprotect(reinterpret_cast<void*>(start), pages, PROT_READ | PROT_WRITE) == 0) {
    return start + pages - round_up(bytes, kAlignment);
  }
  if (start != 0) give_pages(start, span);
  segment_->release(span);
  return 0;
}

bool MemorySpace::add_chunk() {
  uint64_t address = 0;
  if (spare_chunk_ != 0 && segment_->reserve(kChunkBytes)) {
    address = std::exchange(spare_chunk_, 0);
  } else {
    address = allocate_large(kChunkBytes);
  }
  if (address == 0) return false;
  free_small_[address] = kChunkBytes;
  small_by_size_.insert({kChunkBytes, address});
  return true;
}

// One empty chunk is kept for the next small block, so that a program that takes and returns one
// block over and over does not pay for pages each time. It belongs to nobody meanwhile.
void MemorySpace::free_chunk(uint64_t address) {
  // What other processes may still see is not used again, nor its file with what comes here next.
  const bool seen = shared_.erase(address) != 0;
  if (seen || spare_chunk_ != 0) {
    free_large(address, kChunkBytes);
    return;
  }
  spare_chunk_ = address;
  segment_->release(kChunkBytes);
}

void MemorySpace::drop_free_block(std::map<uint64_t, uint64_t>::iterator block) {
  small_by_size_.erase({block->second, block->first});
  free_small_.erase(block);
}

// Best fit among the free blocks of all chunks.
uint64_t MemorySpace::allocate_small(uint64_t bytes) {
  bytes = round_up(bytes, kSmallAlignment);
  auto fit = small_by_size_.lower_bound({bytes, 0});
  if (fit == small_by_size_.end()) {
    if (!add_chunk()) return 0;
    fit = small_by_size_.lower_bound({bytes, 0});
  }
  const auto [size, address] = *fit;
  small_by_size_.erase(fit);
  free_small_.erase(address);
  if (size > bytes) {
    free_small_[address + bytes] = size - bytes;
    small_by_size_.insert({size - bytes, address + bytes});
  }
  return address;
}

void MemorySpace::free_small(uint64_t address, uint64_t bytes) {
  bytes = round_up(bytes, kSmallAlignment);
  const uint64_t chunk = address / kChunkBytes;
  auto next = free_small_.lower_bound(address);
  if (next != free_small_.end() && next->first == address + bytes &&
      next->first / kChunkBytes == chunk) {
    bytes += next->second;
    const auto gone = next++;
    drop_free_block(gone);
  }
  if (next != free_small_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address && before->first / kChunkBytes == chunk) {
      address = before->first;
      bytes += before->second;
      drop_free_block(before);
    }
  }
  if (bytes == kChunkBytes) {
    free_chunk(address);
    return;
  }
  free_small_[address] = bytes;
  small_by_size_.insert({bytes, address});
}

uint64_t MemorySpace::allocate(uint64_t bytes, MemoryKind kind, uint64_t owner) {
  if (bytes == 0 || bytes > kReservationBytes) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t address = kind == MemoryKind::kManagedModule ? allocate_shared(bytes)
                           : strict_                          ? allocate_guarded(bytes)
                           : is_small(bytes)                  ? allocate_small(bytes)
                                                              : allocate_large(bytes);
  if (address == 0) return 0;
  MemoryRange range;
  range.base = address;
  range.bytes = range.held = bytes;
  range.kind = kind;
  range.owner = owner;
  insert(range);
  return address;
}

bool MemorySpace::free_here(uint64_t address) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = ranges_.find(address);
  if (found == ranges_.end()) return false;
  const MemoryRange range = found->second;
  const bool ours = range.kind == MemoryKind::kDevice || range.kind == MemoryKind::kModule ||
                    range.kind == MemoryKind::kArray || range.kind == MemoryKind::kManagedModule;
  if (!ours) return false;
  ranges_.erase(found);
  if (!is_small(range.held)) shared_.erase(address / kPage * kPage);
  if (files_.erase(address) != 0) {
    free_large(address, range.held);
  } else if (is_small(range.held)) {
    free_small(address, range.held);
  } else if (strict_) {
    const uint64_t span = round_up(round_up(range.held, kPage) + kPage, kChunkBytes);
    give_pages(address / kPage * kPage, span);
    segment_->release(span);
  } else {
    free_large(address, range.held);
  }
  return true;
}

std::vector<uint64_t> MemorySpace::managed_of(uint64_t owner) const {
  std::vector<uint64_t> managed;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [base, range] : ranges_) {
    if (range.owner == owner && range.kind == MemoryKind::kManaged) managed.push_back(base);
  }
  return managed;
}

void MemorySpace::free_owned_by(uint64_t owner) {
  std::vector<MemoryRange> owned;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [base, range] : ranges_) {
      if (range.owner == owner && range.kind != MemoryKind::kVirtual) owned.push_back(range);
    }
  }
  for (const MemoryRange& range : owned) {
    switch (range.kind) {
      case MemoryKind::kHost:
      case MemoryKind::kManaged:
        free_host(range.base, range.kind);
        break;
      case MemoryKind::kRegisteredHost:
        unregister_host(range.base);
        break;
      case MemoryKind::kPeer:
        close_peer(range.base);
        break;
      default:
        free(range.base);
        break;
    }
  }
}

uint64_t MemorySpace::allocate_host(uint64_t bytes, uint32_t flags, uint64_t owner,
                                    MemoryKind kind) {
  if (bytes == 0 || bytes > kReservationBytes) return 0;
  void* pages = ::mmap(nullptr, round_up(bytes, kPage), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  MemoryRange range;
  range.base = reinterpret_cast<uint64_t>(pages);
  range.bytes = bytes;
  range.kind = kind;
  range.owner = owner;
  range.flags = flags;
  insert(range);
  return range.base;
}

bool MemorySpace::free_host_here(uint64_t address, MemoryKind kind) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = ranges_.find(address);
  if (found == ranges_.end() || found->second.kind != kind) return false;
  ::munmap(reinterpret_cast<void*>(address), round_up(found->second.bytes, kPage));
  ranges_.erase(found);
  return true;
}

MemorySpace::Registration MemorySpace::register_host(uint64_t address, uint64_t bytes,
                                                     uint32_t flags, uint64_t owner) {
  if (address == 0 || bytes == 0 || address + bytes < address) return Registration::kInvalid;
  for (const MemorySpace* each : others_) {
    if (each->find_here(address).has_value()) return Registration::kAlready;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  auto next = ranges_.lower_bound(address);
  if (next != ranges_.end() && next->first < address + bytes) return Registration::kAlready;
  if (next != ranges_.begin() &&
      std::prev(next)->second.base + std::prev(next)->second.bytes > address) {
    return Registration::kAlready;
  }
  // msync tells whether the whole range is mapped without touching it.
  const uint64_t first = address / kPage * kPage;
  if (::msync(reinterpret_cast<void*>(first), round_up(address + bytes, kPage) - first, MS_ASYNC) !=
      0) {
    return Registration::kInvalid;
  }
  MemoryRange range;
  range.base = address;
  range.bytes = bytes;
  range.kind = MemoryKind::kRegisteredHost;
  range.owner = owner;
  range.flags = flags;
  insert(range);
  return Registration::kDone;
}

bool MemorySpace::unregister_here(uint64_t address) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = ranges_.find(address);
  if (found == ranges_.end() || found->second.kind != MemoryKind::kRegisteredHost) return false;
  ranges_.erase(found);
  return true;
}

}  // namespace vgpu::softgpu
