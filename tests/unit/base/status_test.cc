// Status, Result and the byte helpers.
// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <memory>

#include "base/bytes.h"

namespace vgpu {
namespace {

TEST(StatusTest, FailureSaysCodeAndText) {
  const Status status(StatusCode::kRefused, "quota is used up");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kRefused);
  EXPECT_NE(status.to_string().find("quota is used up"), std::string::npos);
  EXPECT_TRUE(ok_status().ok());
}

TEST(StatusTest, ErrnoKeepsItsNumber) {
  const Status status = Status::from_errno(ENOENT, "open");
  EXPECT_EQ(status.os_error(), ENOENT);
  EXPECT_EQ(status.text(), "open: No such file or directory");
}

TEST(ResultTest, MovesItsValueOut) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  ASSERT_TRUE(result.ok());
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
}

TEST(ResultTest, FailureLeavesTheFunction) {
  const auto inner = []() -> Status { return {StatusCode::kTimedOut, "late"}; };
  const auto outer = [&]() -> Result<int> {
    VGPU_RETURN_IF_ERROR(inner());
    return 1;
  };
  const Result<int> result = outer();
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kTimedOut);
}

TEST(BytesTest, RangesDoNotOverflow) {
  EXPECT_TRUE(range_within(0, 0, 0));
  EXPECT_TRUE(range_within(4, 4, 8));
  EXPECT_FALSE(range_within(5, 4, 8));
  EXPECT_FALSE(range_within(8, ~uint64_t{0}, 16));
  uint64_t out = 0;
  EXPECT_FALSE(checked_add(~uint64_t{0}, 1, &out));
  EXPECT_FALSE(checked_multiply(uint64_t{1} << 32, uint64_t{1} << 32, &out));
  EXPECT_TRUE(checked_multiply(3, 5, &out));
  EXPECT_EQ(out, 15U);
}

TEST(BytesTest, ReadsAtOddOffsetsOnlyInside) {
  const std::array<std::byte, 6> bytes{std::byte{0}, std::byte{1}, std::byte{0},
                                       std::byte{0}, std::byte{0}, std::byte{9}};
  uint32_t value = 77;
  EXPECT_TRUE(read_at(std::span<const std::byte>(bytes), 1, &value));
  EXPECT_EQ(value, 1U);
  value = 77;
  EXPECT_FALSE(read_at(std::span<const std::byte>(bytes), 3, &value));
  EXPECT_EQ(value, 77U);
}

TEST(BytesTest, Alignment) {
  EXPECT_EQ(align_up(1, 256), 256U);
  EXPECT_EQ(align_up(256, 256), 256U);
  EXPECT_EQ(align_down(511, 256), 256U);
  EXPECT_TRUE(is_power_of_two(64));
  EXPECT_FALSE(is_power_of_two(0));
  EXPECT_FALSE(is_power_of_two(12));
}

}  // namespace
}  // namespace vgpu
