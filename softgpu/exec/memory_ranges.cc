// What is known of addresses: ranges that are added, looked up and described.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "softgpu/exec/memory_space.h"

namespace vgpu::softgpu {

void MemorySpace::set_pooled(uint64_t base, uint64_t usable) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = ranges_.find(base);
  if (found == ranges_.end()) return;
  found->second.pooled = true;
  found->second.bytes = usable;
  if (usable != 0) found->second.id = next_id_++;
}

bool MemorySpace::split_pooled(uint64_t base, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = ranges_.find(base);
  // A block that others have stays as it is: its pages are one file.
  if (strict_ || found == ranges_.end() || !found->second.pooled || bytes == 0 ||
      bytes % kChunkBytes != 0 || found->second.held <= bytes || shared_.count(base) != 0) {
    return false;
  }
  MemoryRange rest = found->second;
  found->second.held = bytes;
  rest.base += bytes;
  rest.held -= bytes;
  rest.bytes = 0;
  insert(rest);
  return true;
}

int MemorySpace::descriptor_here(uint64_t base, uint64_t bytes) const {
  constexpr uint64_t kPage = 4096;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto file = files_.find(base);
  const auto range = ranges_.find(base);
  if (file == files_.end() || range == ranges_.end()) return -1;
  if (bytes != (range->second.bytes + kPage - 1) / kPage * kPage) return -1;
  return ::fcntl(file->second.get(), F_DUPFD_CLOEXEC, 0);
}

int MemorySpace::descriptor_of(uint64_t base, uint64_t bytes) const {
  int descriptor = descriptor_here(base, bytes);
  for (size_t i = 0; descriptor < 0 && i < others_.size(); ++i)
    descriptor = others_[i]->descriptor_here(base, bytes);
  return descriptor;
}

void MemorySpace::add_range(uint64_t base, uint64_t bytes, MemoryKind kind, uint64_t owner) {
  std::lock_guard<std::mutex> lock(mutex_);
  MemoryRange range;
  range.base = base;
  range.bytes = bytes;
  range.kind = kind;
  range.owner = owner;
  range.open = kind != MemoryKind::kVirtual;
  insert(range);
}

void MemorySpace::set_open_here(uint64_t base, uint64_t bytes, bool open) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = ranges_.lower_bound(base); it != ranges_.end() && it->first - base < bytes; ++it) {
    if (it->second.kind == MemoryKind::kVirtual) it->second.open = open;
  }
}

void MemorySpace::set_open(uint64_t base, uint64_t bytes, bool open) {
  set_open_here(base, bytes, open);
  for (MemorySpace* const each : others_) each->set_open_here(base, bytes, open);
}

bool MemorySpace::remove_here(uint64_t base) {
  std::lock_guard<std::mutex> lock(mutex_);
  return ranges_.erase(base) != 0;
}

bool MemorySpace::remove_range(uint64_t base) {
  return remove_here(base) || std::any_of(others_.begin(), others_.end(), [&](MemorySpace* each) {
           return each->remove_here(base);
         });
}

std::optional<MemoryRange> MemorySpace::find_here(uint64_t address) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return std::nullopt;
  const MemoryRange& range = std::prev(next)->second;
  if (address - range.base >= range.bytes) return std::nullopt;
  return range;
}

std::optional<MemoryRange> MemorySpace::find(uint64_t address) const {
  std::optional<MemoryRange> found = find_here(address);
  for (size_t i = 0; !found.has_value() && i < others_.size(); ++i)
    found = others_[i]->find_here(address);
  return found;
}

// Mappings of the virtual memory family may be used across their borders, also when the next one is
// of another device; other ranges may not.
bool MemorySpace::covers(uint64_t address, uint64_t bytes) const {
  if (address + bytes < address) return false;
  const uint64_t end = address + bytes;
  while (address < end) {
    const std::optional<MemoryRange> range = find(address);
    if (!range.has_value() || !range->open) return false;
    address = range->base + range->bytes;
    if (address < end && range->kind != MemoryKind::kVirtual) return false;
  }
  return true;
}

bool MemorySpace::free(uint64_t address) {
  return free_here(address) || std::any_of(others_.begin(), others_.end(), [&](MemorySpace* each) {
           return each->free_here(address);
         });
}

bool MemorySpace::free_host(uint64_t address, MemoryKind kind) {
  return free_host_here(address, kind) ||
         std::any_of(others_.begin(), others_.end(),
                     [&](MemorySpace* each) { return each->free_host_here(address, kind); });
}

bool MemorySpace::unregister_host(uint64_t address) {
  return unregister_here(address) ||
         std::any_of(others_.begin(), others_.end(),
                     [&](MemorySpace* each) { return each->unregister_here(address); });
}

bool MemorySpace::set_sync_memops(uint64_t address, bool on) {
  return set_sync_memops_here(address, on) ||
         std::any_of(others_.begin(), others_.end(),
                     [&](MemorySpace* each) { return each->set_sync_memops_here(address, on); });
}

bool MemorySpace::set_sync_memops_here(uint64_t address, bool on) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return false;
  MemoryRange& range = std::prev(next)->second;
  if (address - range.base >= range.bytes) return false;
  range.sync_memops = on;
  return true;
}

std::string MemorySpace::describe(uint64_t address) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return "below all device memory";
  const MemoryRange& range = std::prev(next)->second;
  const uint64_t offset = address - range.base;
  char text[160];
  if (offset < range.bytes) {
    std::snprintf(text, sizeof text, "at offset %llu of the allocation of %llu bytes at 0x%llx",
                  static_cast<unsigned long long>(offset),
                  static_cast<unsigned long long>(range.bytes),
                  static_cast<unsigned long long>(range.base));
  } else {
    std::snprintf(
        text, sizeof text, "%llu bytes behind the end of the allocation of %llu bytes at 0x%llx",
        static_cast<unsigned long long>(offset - range.bytes),
        static_cast<unsigned long long>(range.bytes), static_cast<unsigned long long>(range.base));
  }
  return text;
}

}  // namespace vgpu::softgpu
