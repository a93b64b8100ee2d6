// From a device address to the block that holds it.
// SPDX-License-Identifier: Apache-2.0
#include "shim/memory/address_index.h"

#include <sys/mman.h>

#include <bit>
#include <cerrno>

namespace vgpu::shim {

void SmallChunk::set_start(uint64_t block_address, BlockIndex index) {
  const auto unit = static_cast<uint32_t>((block_address - address) >> kUnitShift);
  starts[unit / 64] |= uint64_t{1} << (unit % 64);
  block_at[unit] = index;
}

void SmallChunk::clear_start(uint64_t block_address) {
  const auto unit = static_cast<uint32_t>((block_address - address) >> kUnitShift);
  starts[unit / 64] &= ~(uint64_t{1} << (unit % 64));
  block_at[unit] = kNoBlock;
}

BlockIndex SmallChunk::find(uint64_t at) const {
  const auto unit = static_cast<uint32_t>((at - address) >> kUnitShift);
  uint64_t bits = starts[unit / 64] & (~uint64_t{0} >> (63 - unit % 64));
  for (uint32_t word = unit / 64;; bits = starts[--word]) {
    if (bits != 0) return block_at[word * 64 + 63 - static_cast<uint32_t>(std::countl_zero(bits))];
    if (word == 0) return kNoBlock;
  }
}

Status AddressIndex::open() {
  constexpr size_t kBytes = (kAddressLimit >> kChunkShift) * sizeof(uint32_t);
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return Status::from_errno(errno, "mmap of the address index");
  ::madvise(memory, kBytes, MADV_NOHUGEPAGE);
  ::madvise(memory, kBytes, MADV_DONTDUMP);
  table_ = Mapping(memory, kBytes);
  return ok_status();
}

void AddressIndex::set_large(uint64_t address, uint64_t bytes, BlockIndex index) {
  for (uint64_t chunk = address >> kChunkShift; chunk < (address + bytes) >> kChunkShift; ++chunk) {
    table()[chunk] = index;
  }
}

SmallChunk* AddressIndex::add_small(uint64_t address) {
  uint32_t number;
  if (unused_chunks_.empty()) {
    number = static_cast<uint32_t>(chunks_.size());
    chunks_.push_back(std::make_unique<SmallChunk>());
  } else {
    number = unused_chunks_.back();
    unused_chunks_.pop_back();
    *chunks_[number] = SmallChunk();
  }
  chunks_[number]->address = address;
  table()[address >> kChunkShift] = kSmallTag | number;
  return chunks_[number].get();
}

void AddressIndex::remove_small(SmallChunk* chunk) {
  uint32_t& word = table()[chunk->address >> kChunkShift];
  unused_chunks_.push_back(word & ~kSmallTag);
  word = kNoBlock;
}

SmallChunk* AddressIndex::small_at(uint64_t address) const {
  if (address >= kAddressLimit) return nullptr;
  const uint32_t word = table()[address >> kChunkShift];
  return (word & kSmallTag) != 0 ? chunks_[word & ~kSmallTag].get() : nullptr;
}

BlockIndex AddressIndex::find(uint64_t address) const {
  if (address >= kAddressLimit) return kNoBlock;
  const uint32_t word = table()[address >> kChunkShift];
  return (word & kSmallTag) != 0 ? chunks_[word & ~kSmallTag]->find(address) : word;
}

}  // namespace vgpu::shim
