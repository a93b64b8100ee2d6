// Address space for the windows of as many blocks as a cluster may have; only those in use can be
// accessed. SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/cluster.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace vgpu::softgpu {
namespace {

// Whatever rank an address names lies in here, so that wrong ones are faults.
constexpr size_t kReserved = size_t{kRanks} * kClusterWindow;

}  // namespace

Cluster::~Cluster() {
  if (memory_ != nullptr) munmap(memory_, kReserved);
}

bool Cluster::begin(uint32_t blocks, size_t shared_bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = (std::max<size_t>(shared_bytes, 1) + page - 1) / page * page;
  if (blocks > kRanks || bytes >= kClusterWindow || !reserve(blocks, bytes)) return false;
  running_ = blocks;
  arrived_ = phase_ = 0;
  return true;
}

bool Cluster::reserve(uint32_t blocks, size_t window_bytes) {
  if (memory_ != nullptr && blocks == blocks_ && window_bytes == window_bytes_) return true;
  if (memory_ != nullptr) munmap(memory_, kReserved);
  void* at =
      mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  memory_ = at == MAP_FAILED ? nullptr : static_cast<uint8_t*>(at);
  blocks_ = 0;
  if (memory_ == nullptr) return false;
  for (uint32_t rank = 0; rank < blocks; ++rank) {
    if (mprotect(memory_ + size_t{rank} * kClusterWindow, window_bytes, PROT_READ | PROT_WRITE) !=
        0)
      return false;
  }
  blocks_ = blocks;
  window_bytes_ = window_bytes;
  return true;
}

void Cluster::arrive() {
  ++arrived_;
  next_phase_if_due();
}

void Cluster::leave(bool arrived) {
  --running_;
  if (arrived) --arrived_;
  next_phase_if_due();
}

void Cluster::next_phase_if_due() {
  if (running_ == 0 || arrived_ < running_) return;
  arrived_ = 0;
  ++phase_;
}

}  // namespace vgpu::softgpu
