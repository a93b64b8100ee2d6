// Claimed addresses are taken for everybody else, and only free ones can be claimed.
// SPDX-License-Identifier: Apache-2.0
#include "shim/memory/address_claim.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace vgpu::shim {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSomewhere = 0x1800'0000'0000;

TEST(AddressClaim, HoldsFreeAddresses) {
  ASSERT_TRUE(claim_addresses(kSomewhere, 4 * kPage));
  EXPECT_FALSE(claim_addresses(kSomewhere + kPage, kPage)) << "it is taken now";
  auto* const hint = reinterpret_cast<void*>(kSomewhere + 2 * kPage);
  void* const other = ::mmap(hint, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(other, hint);
  ::munmap(other, kPage);
  release_addresses(kSomewhere, 4 * kPage);
  EXPECT_TRUE(claim_addresses(kSomewhere + kPage, kPage));
  release_addresses(kSomewhere + kPage, kPage);
}

TEST(AddressClaim, LeavesAloneWhatLiesThere) {
  auto* const wanted = reinterpret_cast<void*>(kSomewhere + kPage);
  auto* const word =
      static_cast<uint64_t*>(::mmap(wanted, kPage, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
  ASSERT_EQ(word, wanted);
  *word = 42;
  EXPECT_FALSE(claim_addresses(kSomewhere, 3 * kPage));
  EXPECT_FALSE(claim_addresses(kSomewhere + 2 * kPage - 1, 2)) << "whole pages are claimed";
  EXPECT_EQ(*word, 42u);
  EXPECT_TRUE(claim_addresses(kSomewhere, kPage)) << "the page before is free still";
  release_addresses(kSomewhere, kPage);
  ::munmap(word, kPage);
}

TEST(AddressClaim, RefusesRangesThatAreNone) {
  EXPECT_FALSE(claim_addresses(kSomewhere, 0));
  EXPECT_FALSE(claim_addresses(UINT64_MAX - 100, 200));
  EXPECT_FALSE(claim_addresses(kSomewhere, UINT64_MAX));
}

}  // namespace
}  // namespace vgpu::shim
