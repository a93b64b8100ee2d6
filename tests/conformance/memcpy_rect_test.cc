// Two- and three-dimensional copies and fills in memory: offsets, pitches, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <climits>
#include <cstring>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

using MemcpyRectTest = ContextTest;

std::vector<uint8_t> pattern(size_t bytes, uint32_t seed) {
  std::vector<uint8_t> data(bytes);
  uint32_t state = seed * 2654435761U + 1;
  for (uint8_t& byte : data) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return data;
}

// Device memory with known contents.
class Bytes {
 public:
  explicit Bytes(const std::vector<uint8_t>& contents) : bytes_(contents.size()) {
    EXPECT_OK(cuMemAlloc_v2(&address_, bytes_));
    EXPECT_OK(cuMemcpyHtoD_v2(address_, contents.data(), bytes_));
  }
  ~Bytes() { EXPECT_OK(cuMemFree_v2(address_)); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  CUdeviceptr at(size_t offset = 0) const { return address_ + offset; }
  std::vector<uint8_t> read() const {
    std::vector<uint8_t> out(bytes_);
    EXPECT_OK(cuMemcpyDtoH_v2(out.data(), address_, bytes_));
    return out;
  }

 private:
  size_t bytes_;
  CUdeviceptr address_ = 0;
};

// What a copy must do, byte by byte.
struct Box {
  size_t x, y, z, pitch, rows;
};
void reference(std::vector<uint8_t>* to, const Box& t, const std::vector<uint8_t>& from,
               const Box& f, size_t width, size_t height, size_t depth) {
  for (size_t z = 0; z < depth; ++z) {
    for (size_t y = 0; y < height; ++y) {
      for (size_t x = 0; x < width; ++x) {
        (*to)[((t.z + z) * t.rows + t.y + y) * t.pitch + t.x + x] =
            from[((f.z + z) * f.rows + f.y + y) * f.pitch + f.x + x];
      }
    }
  }
}

void set_to(CUDA_MEMCPY3D* copy, const Box& box) {
  copy->dstXInBytes = box.x, copy->dstY = box.y, copy->dstZ = box.z;
  copy->dstPitch = box.pitch, copy->dstHeight = box.rows;
}
void set_from(CUDA_MEMCPY3D* copy, const Box& box) {
  copy->srcXInBytes = box.x, copy->srcY = box.y, copy->srcZ = box.z;
  copy->srcPitch = box.pitch, copy->srcHeight = box.rows;
}

CUdeviceptr unified(const void* host) { return reinterpret_cast<CUdeviceptr>(host); }

// One box through the device and back: host to device, on the device, device to host.
void round_trip(const Box& host, const Box& first, const Box& second, size_t width, size_t height,
                size_t depth, CUstream stream, bool by_address) {
  const auto bytes = [](const Box& b, size_t d) { return b.pitch * b.rows * (b.z + d); };
  const auto in = pattern(bytes(host, depth), 1);
  auto expected_first = pattern(bytes(first, depth), 2);
  auto expected_second = pattern(bytes(second, depth), 3);
  auto out = pattern(bytes(host, depth), 4), expected_out = out;
  const Bytes one(expected_first), two(expected_second);
  const CUmemorytype host_type = by_address ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_HOST;
  const CUmemorytype device_type = by_address ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
  CUDA_MEMCPY3D copy = {};
  copy.WidthInBytes = width, copy.Height = height, copy.Depth = depth;
  set_from(&copy, host), set_to(&copy, first);
  copy.srcMemoryType = host_type, copy.srcHost = in.data();
  if (by_address) copy.srcDevice = unified(in.data());
  copy.dstMemoryType = device_type, copy.dstDevice = one.at();
  EXPECT_OK(cuMemcpy3DAsync_v2(&copy, stream));
  set_from(&copy, first), set_to(&copy, second);
  copy.srcMemoryType = device_type, copy.srcDevice = one.at();
  copy.dstDevice = two.at();
  EXPECT_OK(cuMemcpy3DAsync_v2(&copy, stream));
  set_from(&copy, second), set_to(&copy, host);
  copy.srcDevice = two.at();
  copy.dstMemoryType = host_type, copy.dstHost = out.data();
  copy.dstDevice = by_address ? unified(out.data()) : 0;
  EXPECT_OK(cuMemcpy3DAsync_v2(&copy, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  reference(&expected_first, first, in, host, width, height, depth);
  reference(&expected_second, second, expected_first, first, width, height, depth);
  reference(&expected_out, host, expected_second, second, width, height, depth);
  EXPECT_EQ(one.read(), expected_first);
  EXPECT_EQ(two.read(), expected_second);
  EXPECT_EQ(out, expected_out);
}

TEST_F(MemcpyRectTest, BoxesOfManyShapes) {
  Stream stream;
  for (const bool by_address : {false, true}) {
    round_trip({0, 0, 0, 7, 5}, {0, 0, 0, 512, 5}, {0, 0, 0, 7, 5}, 7, 5, 3, stream, by_address);
    round_trip({3, 2, 1, 40, 9}, {5, 1, 2, 64, 8}, {1, 0, 0, 33, 7}, 31, 6, 4, stream, by_address);
    round_trip({1, 0, 0, 2000, 1}, {0, 0, 0, 1999, 1}, {7, 0, 0, 3000, 1}, 1999, 1, 1, stream,
               by_address);
    round_trip({0, 0, 0, 1, 1}, {0, 0, 0, 1, 1}, {0, 0, 0, 1, 1}, 1, 1, 1, stream, by_address);
  }
}

// More than any slab takes at once: rows that do not fit one piece, slices that do not.
TEST_F(MemcpyRectTest, LargeBoxes) {
  Stream stream;
  constexpr size_t kMega = 1 << 20;
  round_trip({0, 0, 0, 5000, 900}, {16, 1, 0, 5632, 901}, {0, 0, 0, 4999, 900}, 4999, 900, 2,
             stream, false);
  round_trip({1, 0, 0, 3 * kMega, 3}, {3, 0, 0, 3 * kMega + 64, 3}, {0, 0, 0, 3 * kMega, 3},
             3 * kMega - 5, 3, 1, stream, false);
  round_trip({0, 0, 0, 16, 4}, {0, 0, 0, 512, 4}, {0, 0, 0, 64, 4}, 16, 4, 1000, stream, false);
}

TEST_F(MemcpyRectTest, TwoDimensionsInAllThreeCalls) {
  constexpr size_t kWidth = 100, kHeight = 20;
  CUdeviceptr address = 0;
  size_t pitch = 0;
  ASSERT_OK(cuMemAllocPitch_v2(&address, &pitch, kWidth, kHeight, 4));
  EXPECT_GE(pitch, kWidth);
  Stream stream;
  for (int call = 0; call < 3; ++call) {
    const auto in = pattern(kWidth * kHeight, 10U + static_cast<uint32_t>(call));
    std::vector<uint8_t> out(kWidth * kHeight);
    CUDA_MEMCPY2D copy = {};
    copy.WidthInBytes = kWidth, copy.Height = kHeight;
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = in.data(), copy.srcPitch = kWidth;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = address, copy.dstPitch = pitch;
    CUDA_MEMCPY2D back = {};
    back.WidthInBytes = kWidth, back.Height = kHeight;
    back.srcMemoryType = CU_MEMORYTYPE_DEVICE, back.srcDevice = address, back.srcPitch = pitch;
    back.dstMemoryType = CU_MEMORYTYPE_HOST, back.dstHost = out.data();  // pitch 0: no gaps
    if (call == 0) {
      EXPECT_OK(cuMemcpy2D_v2(&copy));
      EXPECT_OK(cuMemcpy2D_v2(&back));
    } else if (call == 1) {
      EXPECT_OK(cuMemcpy2DUnaligned_v2(&copy));
      EXPECT_OK(cuMemcpy2DUnaligned_v2(&back));
    } else {
      EXPECT_OK(cuMemcpy2DAsync_v2(&copy, stream));
      EXPECT_OK(cuMemcpy2DAsync_v2(&back, stream));
      EXPECT_OK(cuStreamSynchronize(stream));
    }
    EXPECT_EQ(in, out) << "call " << call;
  }
  EXPECT_OK(cuMemFree_v2(address));
}

TEST_F(MemcpyRectTest, PinnedMemoryBothWays) {
  constexpr size_t kPitch = 1100, kWidth = 1000, kHeight = 600;
  uint8_t* host = nullptr;
  ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&host), 2 * kPitch * kHeight, 0));
  const auto in = pattern(2 * kPitch * kHeight, 21);
  std::copy(in.begin(), in.end(), host);
  const Bytes device(std::vector<uint8_t>(1024 * kHeight, 1));
  {
    Stream stream;
    CUDA_MEMCPY2D copy = {};
    copy.WidthInBytes = kWidth, copy.Height = kHeight;
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = host, copy.srcPitch = kPitch;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = device.at(), copy.dstPitch = 1024;
    EXPECT_OK(cuMemcpy2DAsync_v2(&copy, stream));
    CUDA_MEMCPY2D back = {};
    back.WidthInBytes = kWidth, back.Height = kHeight;
    back.srcMemoryType = CU_MEMORYTYPE_DEVICE, back.srcDevice = device.at(), back.srcPitch = 1024;
    back.dstMemoryType = CU_MEMORYTYPE_HOST, back.dstHost = host, back.dstPitch = kPitch;
    back.dstY = kHeight, back.dstXInBytes = 9;
    EXPECT_OK(cuMemcpy2DAsync_v2(&back, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
  }
  auto expected = in;
  reference(&expected, {9, kHeight, 0, kPitch, 2 * kHeight}, in, {0, 0, 0, kPitch, 0}, kWidth,
            kHeight, 1);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), host));
  EXPECT_OK(cuMemFreeHost(host));
}

TEST_F(MemcpyRectTest, PageableSourceMayChangeAtOnce) {
  Stream stream;
  constexpr size_t kPitch = 64, kWidth = 48, kHeight = 30;
  const Bytes device(std::vector<uint8_t>(kPitch * kHeight, 0));
  std::vector<uint8_t> source(kWidth * kHeight), out(kWidth * kHeight);
  for (uint8_t round = 1; round < 30; ++round) {
    std::fill(source.begin(), source.end(), round);
    CUDA_MEMCPY2D copy = {};
    copy.WidthInBytes = kWidth, copy.Height = kHeight;
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = source.data();
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = device.at();
    copy.dstPitch = kPitch;
    EXPECT_OK(cuMemcpy2DAsync_v2(&copy, stream));
    std::fill(source.begin(), source.end(), 0xff);
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE, copy.srcDevice = device.at();
    copy.srcPitch = kPitch;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = out.data(), copy.dstPitch = 0;
    EXPECT_OK(cuMemcpy2DAsync_v2(&copy, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(out.front(), round);
    EXPECT_EQ(out.back(), round);
  }
}

CUDA_MEMCPY2D good_copy(const void* host, CUdeviceptr device) {
  CUDA_MEMCPY2D copy = {};
  copy.WidthInBytes = 16, copy.Height = 4;
  copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = host, copy.srcPitch = 16;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = device, copy.dstPitch = 32;
  return copy;
}

TEST_F(MemcpyRectTest, NothingToCopyIsFine) {
  const Bytes device(std::vector<uint8_t>(256, 7));
  std::vector<uint8_t> host(256);
  CUDA_MEMCPY2D copy = good_copy(host.data(), device.at());
  copy.Height = 0;
  EXPECT_OK(cuMemcpy2D_v2(&copy));
  copy.Height = 4, copy.WidthInBytes = 0;
  EXPECT_OK(cuMemcpy2DAsync_v2(&copy, nullptr));
  CUDA_MEMCPY3D box = {};
  box.srcMemoryType = CU_MEMORYTYPE_HOST, box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.WidthInBytes = 4, box.Height = 4;
  EXPECT_OK(cuMemcpy3D_v2(&box));
  EXPECT_EQ(device.read(), std::vector<uint8_t>(256, 7));
}

TEST_F(MemcpyRectTest, WrongDescriptions) {
  const Bytes device(std::vector<uint8_t>(256, 7));
  std::vector<uint8_t> host(256);
  EXPECT_CU(cuMemcpy2D_v2(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpy3D_v2(nullptr), CUDA_ERROR_INVALID_VALUE);
  const CUDA_MEMCPY2D good = good_copy(host.data(), device.at());
  const auto refused = [&](auto change) {
    CUDA_MEMCPY2D copy = good;
    change(&copy);
    EXPECT_CU(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(cuMemcpy2DUnaligned_v2(&copy), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(cuMemcpy2DAsync_v2(&copy, nullptr), CUDA_ERROR_INVALID_VALUE);
  };
  refused([](auto* c) { c->srcMemoryType = static_cast<CUmemorytype>(0); });
  refused([](auto* c) { c->dstMemoryType = static_cast<CUmemorytype>(9); });
  refused([](auto* c) { c->srcHost = nullptr; });
  refused([](auto* c) { c->dstDevice = 0; });
  refused([](auto* c) { c->dstDevice = kNowhere; });
  refused([](auto* c) { c->srcPitch = 15; });
  refused([](auto* c) { c->dstPitch = 31, c->dstXInBytes = 16; });
  refused([](auto* c) { c->dstPitch = size_t{INT_MAX} + 1; });
  refused([](auto* c) { c->dstY = 5; });  // the last row ends behind the allocation
  refused([](auto* c) { c->dstY = ~size_t{0} / 2; });
  refused([](auto* c) { c->Height = ~size_t{0}; });
  refused([](auto* c) { c->dstXInBytes = ~size_t{0}; });
  EXPECT_EQ(device.read(), std::vector<uint8_t>(256, 7));
  CUDA_MEMCPY2D last = good;
  last.dstY = 4;  // and this is the last row that fits
  EXPECT_OK(cuMemcpy2D_v2(&last));
}

TEST_F(MemcpyRectTest, WrongBoxes) {
  const Bytes device(std::vector<uint8_t>(1024, 7));
  std::vector<uint8_t> host(1024);
  CUDA_MEMCPY3D good = {};
  good.WidthInBytes = 16, good.Height = 4, good.Depth = 2;
  good.srcMemoryType = CU_MEMORYTYPE_HOST, good.srcHost = host.data(), good.srcPitch = 16;
  good.srcHeight = 4;
  good.dstMemoryType = CU_MEMORYTYPE_DEVICE, good.dstDevice = device.at(), good.dstPitch = 32;
  good.dstHeight = 8;
  EXPECT_OK(cuMemcpy3D_v2(&good));
  const auto refused = [&](auto change) {
    CUDA_MEMCPY3D copy = good;
    change(&copy);
    EXPECT_CU(cuMemcpy3D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(cuMemcpy3DAsync_v2(&copy, nullptr), CUDA_ERROR_INVALID_VALUE);
  };
  refused([](auto* c) { c->srcLOD = 1; });
  refused([](auto* c) { c->dstLOD = 1; });
  refused([](auto* c) { c->reserved0 = c; });
  refused([](auto* c) { c->reserved1 = c; });
  refused([](auto* c) { c->srcHeight = 3; });
  refused([](auto* c) { c->dstHeight = 2; });
  refused([](auto* c) { c->Depth = 5; });
  refused([](auto* c) { c->dstZ = 3; });
  refused([](auto* c) { c->dstZ = ~size_t{0} / 3; });
}

TEST_F(MemcpyRectTest, WrongStream) {
  const Bytes device(std::vector<uint8_t>(256, 7));
  std::vector<uint8_t> host(256);
  const CUDA_MEMCPY2D copy = good_copy(host.data(), device.at());
  EXPECT_CU(cuMemcpy2DAsync_v2(&copy, garbage_handle<CUstream>()), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuMemsetD2D8Async(device.at(), 32, 0, 4, 4, garbage_handle<CUstream>()),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(MemcpyRectTest, FillsOfRows) {
  constexpr size_t kPitch = 64, kHeight = 6;
  const Bytes device(std::vector<uint8_t>(kPitch * kHeight, 0x11));
  Stream stream;
  EXPECT_OK(cuMemsetD2D8_v2(device.at(3), kPitch, 0xab, 7, 2));
  EXPECT_OK(cuMemsetD2D16_v2(device.at(2 * kPitch), kPitch, 0xcdef, 5, 2));
  EXPECT_OK(cuMemsetD2D32_v2(device.at(4 * kPitch + 8), kPitch, 0x12345678, 3, 1));
  EXPECT_OK(cuMemsetD2D8Async(device.at(5 * kPitch), kPitch, 1, 2, 1, stream));
  EXPECT_OK(cuMemsetD2D16Async(device.at(5 * kPitch + 2), kPitch, 2, 1, 1, stream));
  EXPECT_OK(cuMemsetD2D32Async(device.at(5 * kPitch + 4), kPitch, 3, 1, 1, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  std::vector<uint8_t> expected(kPitch * kHeight, 0x11);
  for (size_t y = 0; y < 2; ++y) {
    std::fill_n(&expected[y * kPitch + 3], 7, 0xab);
    for (size_t x = 0; x < 5; ++x) {
      expected[(2 + y) * kPitch + 2 * x] = 0xef, expected[(2 + y) * kPitch + 2 * x + 1] = 0xcd;
    }
  }
  for (size_t x = 0; x < 3; ++x) {
    const uint32_t word = 0x12345678;
    std::memcpy(&expected[4 * kPitch + 8 + 4 * x], &word, 4);
  }
  const uint8_t last[] = {1, 1, 2, 0, 3, 0, 0, 0};
  std::memcpy(&expected[5 * kPitch], last, sizeof(last));
  EXPECT_EQ(device.read(), expected);
}

TEST_F(MemcpyRectTest, WrongFills) {
  const Bytes device(std::vector<uint8_t>(256, 7));
  EXPECT_OK(cuMemsetD2D8_v2(device.at(), 64, 0, 0, 9));
  EXPECT_OK(cuMemsetD2D8_v2(device.at(), 64, 0, 9, 0));
  EXPECT_CU(cuMemsetD2D8_v2(device.at(), 64, 0, 64, 5), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD2D8_v2(device.at(), 8, 0, 9, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD2D16_v2(device.at(1), 64, 0, 4, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD2D16_v2(device.at(), 63, 0, 4, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD2D32_v2(device.at(2), 64, 0, 4, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD2D32Async(device.at(), 62, 0, 4, 2, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD2D8_v2(0, 64, 0, 4, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD2D32_v2(device.at(), 64, 0, ~size_t{0} / 2, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD2D8_v2(device.at(), 64, 0, 4, ~size_t{0} / 32), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(device.read(), std::vector<uint8_t>(256, 7));
}

TEST_F(MemcpyRectTest, PitchedAllocations) {
  CUdeviceptr address = 0;
  size_t pitch = 0;
  EXPECT_CU(cuMemAllocPitch_v2(nullptr, &pitch, 16, 4, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemAllocPitch_v2(&address, nullptr, 16, 4, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemAllocPitch_v2(&address, &pitch, 0, 4, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemAllocPitch_v2(&address, &pitch, 16, 0, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemAllocPitch_v2(&address, &pitch, 16, 4, 3), CUDA_ERROR_INVALID_VALUE);
  for (const unsigned element : {4U, 8U, 16U}) {
    ASSERT_OK(cuMemAllocPitch_v2(&address, &pitch, 1000, 7, element));
    EXPECT_GE(pitch, 1000U);
    EXPECT_EQ(pitch % element, 0U);
    EXPECT_OK(cuMemsetD2D8_v2(address, pitch, 5, pitch, 7));
    EXPECT_OK(cuMemFree_v2(address));
  }
}

}  // namespace
}  // namespace vgpu::conformance
