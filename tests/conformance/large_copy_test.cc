// Copies and fills of more bytes than 32 bits count.
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kPiece = 2 * kMiB;
constexpr size_t kBytes = (size_t{4} << 30) + 12345;

// Host memory of `bytes` whose pieces are all the same pages.
class RepeatedPages {
 public:
  explicit RepeatedPages(size_t bytes) : bytes_((bytes + kPiece - 1) / kPiece * kPiece) {
    const int file = ::memfd_create("vgpu-test-pages", MFD_CLOEXEC);
    EXPECT_EQ(::ftruncate(file, kPiece), 0);
    base_ = static_cast<unsigned char*>(
        ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (size_t done = 0; done < bytes_; done += kPiece) {
      EXPECT_NE(
          ::mmap(base_ + done, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0),
          MAP_FAILED);
    }
    ::close(file);
  }
  ~RepeatedPages() { ::munmap(base_, bytes_); }
  RepeatedPages(const RepeatedPages&) = delete;
  RepeatedPages& operator=(const RepeatedPages&) = delete;
  unsigned char* data() const { return base_; }

 private:
  const size_t bytes_;
  unsigned char* base_ = nullptr;
};

class LargeCopyTest : public KernelTest {
 protected:
  static std::array<unsigned char, 64> look(CUdeviceptr address) {
    std::array<unsigned char, 64> bytes = {};
    EXPECT_OK(cuMemcpyDtoH_v2(bytes.data(), address, bytes.size()));
    return bytes;
  }
};

// Where a size was cut to 32 bits, only 12345 bytes would come.
TEST_F(LargeCopyTest, MoreThanFourGiB) {
  CUdeviceptr device = 0;
  ASSERT_OK(cuMemAlloc_v2(&device, kBytes));
  const RepeatedPages host(kBytes);
  for (size_t i = 0; i < kPiece; ++i)
    host.data()[i] = static_cast<unsigned char>((i >> 8) * 31 + i * 7);
  ASSERT_OK(cuMemcpyHtoD_v2(device, host.data(), kBytes));
  const std::array<size_t, 4> places = {100 * kMiB + 17, size_t{2} << 30, (size_t{4} << 30) - 32,
                                        kBytes - 64};
  for (const size_t place : places) {
    const auto bytes = look(device + place);
    std::array<unsigned char, 64> wanted = {};
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = host.data()[(place + i) % kPiece];
    EXPECT_EQ(bytes, wanted) << place;
  }
  // Down again: what is behind 4 GiB comes last, and over what was there.
  ASSERT_OK(cuMemsetD8_v2(device + (size_t{4} << 30), 0x42, 12345));
  ASSERT_OK(cuMemcpyDtoH_v2(host.data(), device, kBytes));
  EXPECT_EQ(host.data()[0], 0x42);
  EXPECT_EQ(host.data()[12344], 0x42);
  EXPECT_EQ(host.data()[12345], static_cast<unsigned char>((12345 >> 8) * 31 + 12345 * 7));
  ASSERT_OK(cuMemsetD8_v2(device, 0x77, kBytes));
  for (const size_t place : places) {
    std::array<unsigned char, 64> wanted;
    wanted.fill(0x77);
    EXPECT_EQ(look(device + place), wanted) << place;
  }
  EXPECT_OK(cuMemFree_v2(device));
}

}  // namespace
}  // namespace vgpu::conformance
