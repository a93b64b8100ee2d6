// The allocator of device memory against a model that knows nothing of how it works.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <random>
#include <vector>

#include "tests/unit/shim/device_memory_support.h"

namespace vgpu::shim {
namespace {

using DeviceMemoryModelTest = DeviceMemoryTest;

// The model: live ranges in a map, and what the accounting rule says of them.
struct Model {
  std::map<uint64_t, uint64_t> live;
  uint64_t used() const {
    std::map<uint64_t, int> chunks;
    uint64_t sum = 0;
    for (const auto& [address, bytes] : live) {
      if (bytes >= kChunkBytes) {
        sum += (bytes + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
      } else {
        chunks[address / kChunkBytes] = 1;
      }
    }
    return sum + chunks.size() * kChunkBytes;
  }
  void add(uint64_t address, uint64_t bytes) {
    const auto after = live.lower_bound(address);
    if (after != live.end()) {
      ASSERT_LE(address + bytes, after->first);
    }
    if (after != live.begin()) {
      const auto before = std::prev(after);
      ASSERT_LE(before->first + before->second, address);
    }
    live.emplace(address, bytes);
  }
};

TEST_F(DeviceMemoryModelTest, AMillionRandomStepsAgreeWithTheModel) {
  constexpr uint64_t kGrant = 256 * kMiB;
  open(kGrant);
  Model model;
  std::vector<uint64_t> order;
  std::mt19937_64 random(20261130);
  int refused = 0;
  for (int step = 0; step < 1'000'000; ++step) {
    if (random() % 64 == 0) port_->busy = !port_->busy;
    if (random() % 16 == 0) port_->retired_ = port_->fences;
    if (order.size() < 400 && (order.empty() || random() % 100 < 52)) {
      const uint64_t kind = random() % 100;
      const uint64_t limit = kind < 80 ? 20'000 : kind < 97 ? 1'900'000 : 24 * kMiB;
      const uint64_t bytes = 1 + random() % limit;
      uint64_t address = 0;
      const CUresult result = memory_->allocate(bytes, 7, &address);
      if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        ++refused;
        continue;
      }
      ASSERT_EQ(result, CUDA_SUCCESS);
      ASSERT_EQ(address % 512, 0U);
      ASSERT_TRUE(port_->backs(address, bytes));
      model.add(address, bytes);
      order.push_back(address);
    } else {
      const size_t which = random() % order.size();
      const uint64_t address = order[which];
      order[which] = order.back();
      order.pop_back();
      ASSERT_EQ(memory_->free(address), CUDA_SUCCESS);
      model.live.erase(address);
      if (step % 50 == 0) {
        ASSERT_EQ(memory_->free(address), CUDA_ERROR_INVALID_VALUE);
      }
    }
    if (step % 1000 == 0) {
      ASSERT_EQ(memory_->used(), model.used());
    }
    ASSERT_LE(port_->backed.size() * kChunkBytes, kGrant);
  }
  EXPECT_GT(refused, 0);
  for (const uint64_t address : order) ASSERT_EQ(memory_->free(address), CUDA_SUCCESS);
  EXPECT_EQ(memory_->used(), 0U);
  port_->busy = false;
  EXPECT_NE(take(kGrant), 0U);  // everything came together again
}

}  // namespace
}  // namespace vgpu::shim
