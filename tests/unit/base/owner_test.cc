// Descriptors and mappings end with their owner.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/mapping.h"
#include "base/unique_fd.h"

namespace vgpu {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFdTest, ClosesOnceAndMoves) {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  {
    UniqueFd first(fd);
    UniqueFd second(std::move(first));
    EXPECT_EQ(second.get(), fd);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFdTest, ReleaseGivesItUp) {
  UniqueFd owner(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int fd = owner.release();
  owner.reset();
  EXPECT_TRUE(is_open(fd));
  ::close(fd);
}

TEST(MappingTest, SharedMappingsSeeEachOther) {
  UniqueFd fd(::memfd_create("mapping_test", MFD_CLOEXEC));
  ASSERT_TRUE(fd.valid());
  ASSERT_EQ(::ftruncate(fd.get(), 4096), 0);
  auto a = Mapping::map_shared(fd.get(), 4096);
  auto b = Mapping::map_shared(fd.get(), 4096);
  ASSERT_TRUE(a.ok());
  ASSERT_TRUE(b.ok());
  a->data()[17] = std::byte{5};
  EXPECT_EQ(b->data()[17], std::byte{5});
}

TEST(MappingTest, UnmapsWhenItEnds) {
  void* address = nullptr;
  {
    auto mapping = Mapping::map_private(4096);
    ASSERT_TRUE(mapping.ok());
    address = mapping->data();
    unsigned char resident = 0;
    EXPECT_EQ(::mincore(address, 4096, &resident), 0);
  }
  unsigned char resident = 0;
  EXPECT_EQ(::mincore(address, 4096, &resident), -1);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(MappingTest, FailureIsAStatus) {
  const auto mapping = Mapping::map_shared(-1, 4096);
  EXPECT_FALSE(mapping.ok());
  EXPECT_EQ(mapping.status().os_error(), EBADF);
}

}  // namespace
}  // namespace vgpu
