// Counting for profiles.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "softgpu/exec/block_services.h"
#include "softgpu/exec/profile_counters.h"
#include "softgpu/exec/warp_context.h"
#include "softgpu/jit/runtime.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kSectorBytes = 32, kBankBytes = 4, kBanks = 32;

void add(ProfileCounters::Count* count, uint64_t n) {
  count->fetch_add(n, std::memory_order_relaxed);
}

// Sectors that the active lanes touch: each once, however many lanes want it.
uint64_t sectors_of(const uint64_t* address, uint32_t mask, uint32_t bytes) {
  uint64_t touched[2 * kWarpLanes];
  size_t n = 0;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const uint64_t at = address[std::countr_zero(m)];
    touched[n++] = at / kSectorBytes;
    touched[n++] = (at + bytes - 1) / kSectorBytes;
  }
  std::sort(touched, touched + n);
  return static_cast<uint64_t>(std::unique(touched, touched + n) - touched);
}

// Passes over the banks: as many as the busiest bank has different words.
uint64_t passes_of(const uint64_t* address, uint32_t mask, uint64_t words_each) {
  uint64_t words[kWarpLanes * 4];
  size_t n = 0;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    for (uint64_t w = 0; w < words_each; ++w)
      words[n++] = address[std::countr_zero(m)] / kBankBytes + w;
  }
  std::sort(words, words + n);
  n = static_cast<size_t>(std::unique(words, words + n) - words);
  uint64_t busy[kBanks] = {};
  for (size_t i = 0; i < n; ++i) ++busy[words[i] % kBanks];
  return *std::max_element(busy, busy + kBanks);
}

// Accesses wider than a bank are made for a half or a quarter of the warp at a time.
void shared_access(ProfileCounters* counters, const uint64_t* address, uint32_t mask,
                   uint32_t bytes) {
  const uint32_t words = std::max<uint32_t>(1, bytes / kBankBytes);
  const uint32_t group = kWarpLanes / words;
  for (uint32_t first = 0; first < kWarpLanes; first += group) {
    const uint32_t part = group == 32 ? mask : mask & (((1u << group) - 1) << first);
    if (part == 0) continue;
    add(&counters->shared_passes, passes_of(address, part, words));
    add(&counters->shared_ideal, 1);
  }
  add(&counters->shared_requests, 1);
}

// Every thread's own memory is interleaved on a GPU: it is not counted among the global requests.
void access(WarpContext* warp, const uint64_t* address, uint32_t mask, uint32_t bytes) {
  ProfileCounters* const counters = warp->services->profile;
  if (counters == nullptr || mask == 0) return;
  const uint64_t at = address[std::countr_zero(mask)];
  uint64_t in_shared = at - reinterpret_cast<uint64_t>(warp->shared);
  if (warp->cluster != nullptr && in_shared >> kClusterWindowBits < kRanks)
    in_shared %= kClusterWindow;
  if (in_shared < warp->total_shared_bytes) return shared_access(counters, address, mask, bytes);
  const auto local = reinterpret_cast<uint64_t>(warp->local);
  if (at - local < warp->services->local_bytes) return;
  const uint64_t wanted = static_cast<uint64_t>(std::popcount(mask)) * bytes;
  add(&counters->global_requests, 1);
  add(&counters->global_sectors, sectors_of(address, mask, bytes));
  add(&counters->global_ideal, (wanted + kSectorBytes - 1) / kSectorBytes);
  add(&counters->global_bytes, wanted);
}

void block(WarpContext* warp, uint32_t number, uint32_t mask) {
  ProfileCounters* const counters = warp->services->profile;
  if (counters == nullptr || number >= counters->warps.size()) return;
  add(&counters->warps[number], 1);
  add(&counters->lanes[number], static_cast<uint64_t>(std::popcount(mask)));
}

void branch(WarpContext* warp, uint32_t taken, uint32_t stays) {
  ProfileCounters* const counters = warp->services->profile;
  if (counters == nullptr) return;
  add(&counters->branches, 1);
  if (taken != 0 && stays != 0) add(&counters->divergent_branches, 1);
}

template <typename F>
void* address_of(F* f) {
  return reinterpret_cast<void*>(f);
}

}  // namespace

std::span<const RuntimeSymbol> runtime_profile_symbols() {
  static const RuntimeSymbol kSymbols[] = {{"sg_profile_access", address_of(access)},
                                           {"sg_profile_block", address_of(block)},
                                           {"sg_profile_branch", address_of(branch)}};
  return kSymbols;
}

}  // namespace vgpu::softgpu
