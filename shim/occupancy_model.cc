// How many blocks of a kernel fit on one multiprocessor.
// SPDX-License-Identifier: Apache-2.0
#include "shim/occupancy_model.h"

#include <algorithm>

namespace vgpu::shim {
namespace {

constexpr int kRegisterStep = 256;  // registers are given out to a warp in steps of so many
constexpr int kPartitions = 4;      // of a multiprocessor; a warp lives in one of them
constexpr uint64_t round_up(uint64_t value, uint64_t step) {
  return (value + step - 1) / step * step;
}

uint64_t shared_step(const MultiprocessorLimits& limits) {
  return limits.compute_major >= 8 ? 128 : 256;
}

int blocks_by_registers(const MultiprocessorLimits& limits, int registers, int warps) {
  if (registers <= 0) return limits.blocks_max;
  const auto per_warp = static_cast<int>(round_up(
      static_cast<uint64_t>(registers) * static_cast<uint64_t>(limits.warp_size), kRegisterStep));
  const int whole_warps = static_cast<int>(round_up(static_cast<uint64_t>(warps), kPartitions));
  if (per_warp * whole_warps > limits.registers_per_block_max) return 0;
  const int warps_per_partition = limits.registers / kPartitions / per_warp;
  return warps_per_partition * kPartitions / warps;
}

int blocks_by_shared(const MultiprocessorLimits& limits, const KernelDemand& kernel,
                     uint64_t dynamic_shared) {
  const auto reserved = static_cast<uint64_t>(limits.shared_reserved_per_block);
  const uint64_t asked = static_cast<uint64_t>(kernel.static_shared_bytes) + dynamic_shared;
  const int allowed =
      std::max(limits.shared_per_block_max, kernel.static_shared_bytes + kernel.dynamic_shared_max);
  if (asked > static_cast<uint64_t>(allowed)) return 0;
  const uint64_t per_block = round_up(asked + reserved, shared_step(limits));
  if (per_block == 0) return limits.blocks_max;
  return static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(limits.shared_bytes) / per_block,
                                             static_cast<uint64_t>(limits.blocks_max)));
}

}  // namespace

int active_blocks(const MultiprocessorLimits& limits, const KernelDemand& kernel, int threads,
                  uint64_t dynamic_shared) {
  if (threads > limits.threads_per_block_max || threads > kernel.threads_per_block_max) return 0;
  const int warps = (threads + limits.warp_size - 1) / limits.warp_size;
  const int by_warps = limits.threads_max / limits.warp_size / warps;
  const int by_registers = blocks_by_registers(limits, kernel.registers, warps);
  const int by_shared = blocks_by_shared(limits, kernel, dynamic_shared);
  return std::max(0, std::min({limits.blocks_max, by_warps, by_registers, by_shared}));
}

uint64_t available_dynamic_shared(const MultiprocessorLimits& limits, const KernelDemand& kernel,
                                  int blocks, int threads) {
  if (blocks <= 0 || active_blocks(limits, kernel, threads, 0) < blocks) return 0;
  const uint64_t step = shared_step(limits);
  const uint64_t share =
      static_cast<uint64_t>(limits.shared_bytes) / static_cast<uint64_t>(blocks) / step * step;
  const auto taken =
      static_cast<uint64_t>(limits.shared_reserved_per_block + kernel.static_shared_bytes);
  const uint64_t by_share = share > taken ? share - taken : 0;
  const auto most =
      static_cast<uint64_t>(std::max(0, limits.shared_per_block_max - kernel.static_shared_bytes));
  const uint64_t by_block =
      std::max(most, static_cast<uint64_t>(std::max(0, kernel.dynamic_shared_max)));
  return std::min(by_share, by_block);
}

}  // namespace vgpu::shim
