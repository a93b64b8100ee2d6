// For tests of the allocator of device memory: a worker whose device does as it is told.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_UNIT_SHIM_DEVICE_MEMORY_SUPPORT_H_
#define VGPU_TESTS_UNIT_SHIM_DEVICE_MEMORY_SUPPORT_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "shim/memory/device_memory.h"

namespace vgpu::shim {

inline constexpr uint64_t kBase = 0x2000'0000'0000, kMiB = uint64_t{1} << 20;

// A worker whose device finishes work when the test says so.
class FakePort : public MemoryPort {
 public:
  explicit FakePort(uint64_t limit) : limit_(limit) {}
  uint64_t credit() override { return credit_; }
  CUresult request_credit(uint64_t total) override {
    ++credit_requests;
    if (total > limit_) return CUDA_ERROR_OUT_OF_MEMORY;
    credit_ = total;
    return CUDA_SUCCESS;
  }
  void map(uint64_t address, uint64_t bytes) override {
    EXPECT_LE(mapped + bytes, credit_);
    EXPECT_EQ(address % kChunkBytes, 0U);
    EXPECT_EQ(bytes % kChunkBytes, 0U);
    for (uint64_t at = address; at < address + bytes; at += kChunkBytes)
      EXPECT_TRUE(backed.insert(at).second);
    ranges[address] = bytes;
    mapped += bytes;
  }
  void unshare(uint64_t id) override { unshared.push_back(id); }
  CUresult unmap(uint64_t address, uint64_t bytes) override {
    ++unmaps;
    for (uint64_t at = address; at < address + bytes; at += kChunkBytes)
      EXPECT_EQ(backed.erase(at), 1U);
    released += bytes;
    limit_ += bytes;
    return CUDA_SUCCESS;
  }
  void return_credit(uint64_t bytes) override { returned += bytes; }
  CUresult take_back(uint64_t address, uint64_t lent) override {
    EXPECT_EQ(ranges.erase(address), 1U);
    mapped -= lent;
    return CUDA_SUCCESS;
  }
  CUresult lend(uint64_t bytes, uint64_t* address, uint64_t* lent) override {
    if (mapped + bytes > limit_) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = next_slab;
    *lent = bytes;
    ranges.emplace(next_slab, bytes);
    next_slab += bytes + 64 * kMiB;
    mapped += bytes;
    return CUDA_SUCCESS;
  }
  CUresult allocate(uint64_t bytes, uint64_t* address) override {
    *address = next_slab;
    next_slab += (bytes + 511) / 512 * 512;
    ++forwarded;
    return CUDA_SUCCESS;
  }
  void finish_releases() override {}
  CUresult release(uint64_t, bool) override {
    --forwarded;
    return CUDA_SUCCESS;
  }
  bool idle() override { return !busy; }
  uint64_t fence() override { return ++fences; }
  uint64_t retired() override { return retired_; }
  bool wait_retired(uint64_t number) override {
    ++waits;
    if (number > retired_) retired_ = number;
    return alive;
  }

  // Whether all of a block has memory behind it now.
  bool backs(uint64_t address, uint64_t bytes) const {
    for (uint64_t at = address / kChunkBytes * kChunkBytes; at < address + bytes; at += kChunkBytes)
      if (backed.count(at) == 0) return false;
    return true;
  }

  std::set<uint64_t> backed;  // by chunk
  std::map<uint64_t, uint64_t> ranges;
  uint64_t mapped = 0, fences = 0, retired_ = 0;
  uint64_t released = 0, returned = 0;
  uint64_t next_slab = 0x7000'0010'0000;  // not where chunks begin
  int credit_requests = 0, waits = 0, forwarded = 0, unmaps = 0;
  bool busy = false, alive = true;
  std::vector<uint64_t> unshared;  // ids

 private:
  uint64_t limit_, credit_ = 0;
};

class DeviceMemoryTest : public testing::Test {
 protected:
  void open(uint64_t grant, MemoryMode mode = MemoryMode::kMapped) {
    port_ = std::make_unique<FakePort>(grant);
    memory_ = std::make_unique<DeviceMemory>(
        *port_, DeviceMemory::Options{mode, kBase, uint64_t{8} << 40, grant});
    ASSERT_TRUE(memory_->open().ok());
  }
  uint64_t take(uint64_t bytes) {
    uint64_t address = 0;
    EXPECT_EQ(memory_->allocate(bytes, 7, &address), CUDA_SUCCESS) << bytes;
    return address;
  }
  std::unique_ptr<FakePort> port_;
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace vgpu::shim

#endif  // VGPU_TESTS_UNIT_SHIM_DEVICE_MEMORY_SUPPORT_H_
