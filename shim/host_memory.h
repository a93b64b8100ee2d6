// Host memory that the device can reach in place, and host memory that the application registered.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_HOST_MEMORY_H_
#define VGPU_SHIM_HOST_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <map>

#include "base/spin_mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "protocol/limits.h"

namespace vgpu::shim {

enum class HostKind : uint8_t { kAllocated, kRegistered, kManaged };

struct HostBlock {
  HostKind kind = HostKind::kAllocated;
  uint64_t address = 0, bytes = 0;
  uint64_t mapped_bytes = 0;  // whole pages; 0: the application's own (kRegistered)
  uint32_t flags = 0;
  bool in_place = false;  // the worker has it at the same address
  uint64_t context = 0;
};

// Ranges of host memory the shim knows. Thread-safe.
class HostMemory {
 public:
  static constexpr uint64_t kRangeBytes = protocol::kHostRangeBytes;

  HostMemory(uint64_t base, bool claimed) : base_(base), claimed_(claimed) {}

  // Fresh zeroed shared memory at an address of the claimed range (anywhere when there is none),
  // and its sealed descriptor.
  Result<UniqueFd> map(uint64_t bytes, HostBlock* block);
  // Gives the memory back; its place in the claimed range stays reserved for good.
  void unmap(const HostBlock& block);

  // False when the range overlaps a known one.
  bool add(const HostBlock& block);
  // The block of this kind that begins at `address`; *block is it.
  bool remove(uint64_t address, HostKind kind, HostBlock* block);
  bool find(uint64_t address, HostBlock* block);
  bool claimed() const { return claimed_; }

 private:
  SpinMutex mutex_;
  const uint64_t base_;
  const bool claimed_;
  uint64_t used_ = 0;
  std::multimap<uint64_t, uint64_t> returned_;  // by size: places of the claimed range to use again
  std::map<uint64_t, HostBlock> blocks_;
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_HOST_MEMORY_H_
