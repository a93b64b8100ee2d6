// CUDA arrays: descriptors, limits, copies in and out, mipmapped arrays.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

using ArrayTest = ContextTest;

std::vector<uint8_t> pattern(size_t bytes, uint32_t seed) {
  std::vector<uint8_t> data(bytes);
  uint32_t state = seed * 2654435761U + 1;
  for (uint8_t& byte : data) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return data;
}

CUDA_ARRAY3D_DESCRIPTOR describe(size_t width, size_t height, size_t depth, CUarray_format format,
                                 unsigned channels, unsigned flags = 0) {
  CUDA_ARRAY3D_DESCRIPTOR d = {};
  d.Width = width, d.Height = height, d.Depth = depth;
  d.Format = format, d.NumChannels = channels, d.Flags = flags;
  return d;
}

class Array {
 public:
  explicit Array(const CUDA_ARRAY3D_DESCRIPTOR& d) { EXPECT_OK(cuArray3DCreate_v2(&array_, &d)); }
  ~Array() { EXPECT_OK(cuArrayDestroy(array_)); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  operator CUarray() const { return array_; }  // NOLINT(google-explicit-constructor)

 private:
  CUarray array_ = nullptr;
};

CUDA_MEMCPY3D to_array(CUarray array, const void* host, size_t width, size_t height, size_t depth) {
  CUDA_MEMCPY3D copy = {};
  copy.WidthInBytes = width, copy.Height = height, copy.Depth = depth;
  copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = host;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array;
  return copy;
}

CUDA_MEMCPY3D from_array(void* host, CUarray array, size_t width, size_t height, size_t depth) {
  CUDA_MEMCPY3D copy = {};
  copy.WidthInBytes = width, copy.Height = height, copy.Depth = depth;
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY, copy.srcArray = array;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = host;
  return copy;
}

TEST_F(ArrayTest, DescriptorsComeBack) {
  const CUDA_ARRAY3D_DESCRIPTOR all[] = {
      describe(100, 0, 0, CU_AD_FORMAT_FLOAT, 1),
      describe(64, 48, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4),
      describe(8, 6, 4, CU_AD_FORMAT_HALF, 2),
      describe(32, 0, 5, CU_AD_FORMAT_SIGNED_INT16, 1, CUDA_ARRAY3D_LAYERED),
      describe(32, 16, 5, CU_AD_FORMAT_UNSIGNED_INT32, 4, CUDA_ARRAY3D_LAYERED),
      describe(16, 16, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP),
      describe(16, 16, 12, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED),
      describe(16, 16, 0, CU_AD_FORMAT_SIGNED_INT8, 2, CUDA_ARRAY3D_SURFACE_LDST),
      describe(16, 16, 0, CU_AD_FORMAT_SIGNED_INT32, 1, CUDA_ARRAY3D_TEXTURE_GATHER),
  };
  for (const CUDA_ARRAY3D_DESCRIPTOR& d : all) {
    const Array array(d);
    CUDA_ARRAY3D_DESCRIPTOR back = {};
    EXPECT_OK(cuArray3DGetDescriptor_v2(&back, array));
    EXPECT_EQ(back.Width, d.Width);
    EXPECT_EQ(back.Height, d.Height);
    EXPECT_EQ(back.Depth, d.Depth);
    EXPECT_EQ(back.Format, d.Format);
    EXPECT_EQ(back.NumChannels, d.NumChannels);
    EXPECT_EQ(back.Flags, d.Flags);
    CUDA_ARRAY_DESCRIPTOR flat = {};
    EXPECT_OK(cuArrayGetDescriptor_v2(&flat, array));
    EXPECT_EQ(flat.Width, d.Width);
    EXPECT_EQ(flat.NumChannels, d.NumChannels);
  }
}

TEST_F(ArrayTest, WrongDescriptors) {
  const auto refused = [](const CUDA_ARRAY3D_DESCRIPTOR& d, CUresult expected) {
    CUarray array = nullptr;
    EXPECT_CU(cuArray3DCreate_v2(&array, &d), expected);
  };
  const auto wrong = [&](const CUDA_ARRAY3D_DESCRIPTOR& d) {
    refused(d, CUDA_ERROR_INVALID_VALUE);
  };
  constexpr CUarray_format kFloat = CU_AD_FORMAT_FLOAT;
  wrong(describe(0, 4, 0, kFloat, 1));
  wrong(describe(4, 4, 0, kFloat, 3));
  wrong(describe(4, 4, 0, kFloat, 0));
  wrong(describe(4, 4, 0, static_cast<CUarray_format>(0x7f), 1));
  wrong(describe(4, 0, 4, kFloat, 1));                               // depth without height
  wrong(describe(4, 4, 0, kFloat, 1, CUDA_ARRAY3D_LAYERED));         // no layers
  wrong(describe(4, 5, 6, kFloat, 1, CUDA_ARRAY3D_CUBEMAP));         // not square
  wrong(describe(4, 4, 5, kFloat, 1, CUDA_ARRAY3D_CUBEMAP));         // five faces
  wrong(describe(4, 4, 12, kFloat, 1, CUDA_ARRAY3D_CUBEMAP));        // layers without the flag
  wrong(describe(4, 4, 4, kFloat, 1, CUDA_ARRAY3D_TEXTURE_GATHER));  // gather is for 2D
  wrong(describe(4, 4, 0, kFloat, 1, 0x8000));
  int widest = 0;
  EXPECT_OK(cuDeviceGetAttribute(&widest, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, device_));
  ASSERT_GT(widest, 0);
  wrong(describe(static_cast<size_t>(widest) + 1, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1));
  wrong(describe(~size_t{0}, 4, 0, kFloat, 1));
  CUarray array = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR good = describe(4, 4, 0, kFloat, 1);
  EXPECT_CU(cuArray3DCreate_v2(nullptr, &good), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuArray3DCreate_v2(&array, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuArrayCreate_v2(&array, nullptr), CUDA_ERROR_INVALID_VALUE);
  CUDA_ARRAY_DESCRIPTOR flat = {0, 4, kFloat, 1};
  EXPECT_CU(cuArrayCreate_v2(&array, &flat), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ArrayTest, WrongHandles) {
  const CUarray garbage = garbage_handle<CUarray>();
  CUDA_ARRAY3D_DESCRIPTOR d;
  CUDA_ARRAY_DESCRIPTOR flat;
  CUDA_ARRAY_MEMORY_REQUIREMENTS requirements;
  CUDA_ARRAY_SPARSE_PROPERTIES sparse;
  CUarray plane = nullptr;
  EXPECT_CU(cuArrayDestroy(garbage), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuArrayDestroy(nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuArray3DGetDescriptor_v2(&d, garbage), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuArrayGetDescriptor_v2(&flat, garbage), CUDA_ERROR_INVALID_HANDLE);
  CUDA_ARRAY_DESCRIPTOR good = {4, 4, CU_AD_FORMAT_FLOAT, 1};
  CUarray array = nullptr;
  ASSERT_OK(cuArrayCreate_v2(&array, &good));
  EXPECT_CU(cuArray3DGetDescriptor_v2(nullptr, array), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuArrayGetDescriptor_v2(nullptr, array), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuArrayGetMemoryRequirements(&requirements, array, device_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuArrayGetSparseProperties(&sparse, array), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuArrayGetPlane(&plane, array, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuArrayDestroy(array));
  EXPECT_CU(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
  std::vector<uint8_t> host(64);
  EXPECT_CU(cuMemcpyAtoH_v2(host.data(), array, 0, 16), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ArrayTest, OneDimension) {
  constexpr size_t kTexels = 300, kBytes = kTexels * 8;
  const Array first(describe(kTexels, 0, 0, CU_AD_FORMAT_UNSIGNED_INT16, 4));
  const Array second(describe(kTexels, 0, 0, CU_AD_FORMAT_FLOAT, 2));
  const auto in = pattern(kBytes, 1);
  std::vector<uint8_t> out(kBytes);
  EXPECT_OK(cuMemcpyHtoA_v2(first, 0, in.data(), kBytes));
  EXPECT_OK(cuMemcpyAtoA_v2(second, 80, first, 16, kBytes - 160));
  EXPECT_OK(cuMemcpyAtoH_v2(out.data(), second, 80, kBytes - 160));
  EXPECT_TRUE(std::equal(out.begin(), out.end() - 160, in.begin() + 16));
  const Words words(kBytes / 4);
  EXPECT_OK(cuMemcpyAtoD_v2(words.at(), first, 0, kBytes));
  EXPECT_OK(cuMemcpyDtoA_v2(second, 8, words.at(), kBytes - 8));
  Stream stream;
  EXPECT_OK(cuMemcpyAtoHAsync_v2(out.data(), second, 8, kBytes - 8, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_TRUE(std::equal(out.begin(), out.end() - 8, in.begin()));
  EXPECT_OK(cuMemcpyHtoAAsync_v2(first, 800, in.data(), 800, stream));
  EXPECT_OK(cuMemcpyAtoHAsync_v2(out.data(), first, 800, 800, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_TRUE(std::equal(out.begin(), out.begin() + 800, in.begin()));
}

TEST_F(ArrayTest, WrongRowsOfOneDimension) {
  const Array array(describe(16, 0, 0, CU_AD_FORMAT_FLOAT, 1));
  const Array wide(describe(16, 0, 0, CU_AD_FORMAT_FLOAT, 2));
  std::vector<uint8_t> host(64);
  EXPECT_OK(cuMemcpyHtoA_v2(array, 0, host.data(), 0));
  EXPECT_CU(cuMemcpyHtoA_v2(array, 2, host.data(), 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyHtoA_v2(array, 0, host.data(), 6), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyHtoA_v2(array, 4, host.data(), 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyHtoA_v2(array, ~size_t{3}, host.data(), 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyHtoA_v2(array, 0, nullptr, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyAtoH_v2(nullptr, array, 0, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyAtoD_v2(kNowhere, array, 0, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyAtoA_v2(wide, 0, array, 0, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyHtoA_v2(garbage_handle<CUarray>(), 0, host.data(), 8),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ArrayTest, BoxesInAndOut) {
  constexpr size_t kWidth = 40, kHeight = 9, kDepth = 5, kTexel = 4;
  const Array array(describe(kWidth, kHeight, kDepth, CU_AD_FORMAT_UNSIGNED_INT8, 4));
  const auto in = pattern(kWidth * kTexel * kHeight * kDepth, 5);
  auto copy = to_array(array, in.data(), kWidth * kTexel, kHeight, kDepth);
  EXPECT_OK(cuMemcpy3D_v2(&copy));
  // A box out of the middle, into a box of a larger one.
  std::vector<uint8_t> out(10000, 0xaa);
  auto part = from_array(out.data(), array, 10 * kTexel, 3, 2);
  part.srcXInBytes = 7 * kTexel, part.srcY = 4, part.srcZ = 2;
  part.dstXInBytes = 5, part.dstY = 1, part.dstPitch = 60, part.dstHeight = 6;
  EXPECT_OK(cuMemcpy3D_v2(&part));
  std::vector<uint8_t> expected(10000, 0xaa);
  for (size_t z = 0; z < 2; ++z) {
    for (size_t y = 0; y < 3; ++y) {
      std::copy_n(&in[((z + 2) * kHeight + y + 4) * kWidth * kTexel + 7 * kTexel], 10 * kTexel,
                  &expected[(z * 6 + y + 1) * 60 + 5]);
    }
  }
  EXPECT_EQ(out, expected);
  // And within the device: array to array to memory.
  const Array other(describe(kWidth, kHeight, kDepth, CU_AD_FORMAT_UNSIGNED_INT32, 1));
  CUDA_MEMCPY3D across = {};
  across.WidthInBytes = kWidth * kTexel, across.Height = kHeight, across.Depth = kDepth;
  across.srcMemoryType = CU_MEMORYTYPE_ARRAY, across.srcArray = array;
  across.dstMemoryType = CU_MEMORYTYPE_ARRAY, across.dstArray = other;
  Stream stream;
  EXPECT_OK(cuMemcpy3DAsync_v2(&across, stream));
  const Words words(in.size() / 4);
  across.srcArray = other;
  across.dstMemoryType = CU_MEMORYTYPE_DEVICE, across.dstDevice = words.at();
  EXPECT_OK(cuMemcpy3DAsync_v2(&across, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  std::vector<uint8_t> bytes(in.size());
  EXPECT_OK(cuMemcpyDtoH_v2(bytes.data(), words.at(), bytes.size()));
  EXPECT_EQ(bytes, in);
}

TEST_F(ArrayTest, RowsAndLayers) {
  constexpr size_t kWidth = 33, kHeight = 17;
  const Array flat(describe(kWidth, kHeight, 0, CU_AD_FORMAT_HALF, 1));
  const auto in = pattern(kWidth * 2 * kHeight, 6);
  std::vector<uint8_t> out(in.size());
  CUDA_MEMCPY2D copy = {};
  copy.WidthInBytes = kWidth * 2, copy.Height = kHeight;
  copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = in.data(), copy.srcPitch = kWidth * 2;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = flat;
  EXPECT_OK(cuMemcpy2D_v2(&copy));
  CUDA_MEMCPY2D back = {};
  back.WidthInBytes = kWidth * 2, back.Height = kHeight;
  back.srcMemoryType = CU_MEMORYTYPE_ARRAY, back.srcArray = flat;
  back.dstMemoryType = CU_MEMORYTYPE_HOST, back.dstHost = out.data(), back.dstPitch = kWidth * 2;
  EXPECT_OK(cuMemcpy2D_v2(&back));
  EXPECT_EQ(in, out);
  const Array layers(describe(8, 0, 3, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED));
  auto to_layers = to_array(layers, in.data(), 32, 1, 3);
  EXPECT_OK(cuMemcpy3D_v2(&to_layers));
  auto second = from_array(out.data(), layers, 32, 1, 1);
  second.srcZ = 1;
  EXPECT_OK(cuMemcpy3D_v2(&second));
  EXPECT_TRUE(std::equal(out.begin(), out.begin() + 32, in.begin() + 32));
}

TEST_F(ArrayTest, WrongBoxes) {
  const Array array(describe(8, 4, 2, CU_AD_FORMAT_FLOAT, 1));
  std::vector<uint8_t> host(1024);
  const auto refused = [&](auto change, CUresult expected = CUDA_ERROR_INVALID_VALUE) {
    CUDA_MEMCPY3D copy = to_array(array, host.data(), 32, 4, 2);
    change(&copy);
    EXPECT_CU(cuMemcpy3D_v2(&copy), expected);
  };
  refused([](auto* c) { c->WidthInBytes = 36; });
  refused([](auto* c) { c->WidthInBytes = 30; });
  refused([](auto* c) { c->Height = 5; });
  refused([](auto* c) { c->Depth = 3; });
  refused([](auto* c) { c->dstXInBytes = 4; });
  refused([](auto* c) { c->dstY = 1; });
  refused([](auto* c) { c->dstZ = 2; });
  refused([](auto* c) { c->WidthInBytes = 16, c->dstXInBytes = 2; });
  refused([](auto* c) { c->dstZ = ~size_t{0}; });
  refused([](auto* c) { c->dstArray = garbage_handle<CUarray>(); }, CUDA_ERROR_INVALID_HANDLE);
  refused([](auto* c) { c->dstArray = nullptr; }, CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ArrayTest, MipmappedLevels) {
  const CUDA_ARRAY3D_DESCRIPTOR d = describe(20, 6, 0, CU_AD_FORMAT_UNSIGNED_INT8, 2);
  CUmipmappedArray mipmapped = nullptr;
  ASSERT_OK(cuMipmappedArrayCreate(&mipmapped, &d, 99));  // clamped to what there can be: 5
  CUarray level = nullptr;
  EXPECT_CU(cuMipmappedArrayGetLevel(&level, mipmapped, 5), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMipmappedArrayGetLevel(nullptr, mipmapped, 0), CUDA_ERROR_INVALID_VALUE);
  for (unsigned i = 0; i < 5; ++i) {
    ASSERT_OK(cuMipmappedArrayGetLevel(&level, mipmapped, i));
    CUDA_ARRAY3D_DESCRIPTOR back = {};
    EXPECT_OK(cuArray3DGetDescriptor_v2(&back, level));
    EXPECT_EQ(back.Width, std::max(20U >> i, 1U));
    EXPECT_EQ(back.Height, std::max(6U >> i, 1U));
    EXPECT_EQ(back.Depth, 0U);
    const auto in = pattern(back.Width * 2 * back.Height, i);
    auto copy = to_array(level, in.data(), back.Width * 2, back.Height, 1);
    EXPECT_OK(cuMemcpy3D_v2(&copy));
  }
  for (unsigned i = 0; i < 5; ++i) {  // no level lies on another
    ASSERT_OK(cuMipmappedArrayGetLevel(&level, mipmapped, i));
    const size_t width = std::max(20U >> i, 1U) * 2, height = std::max(6U >> i, 1U);
    std::vector<uint8_t> out(width * height);
    auto copy = from_array(out.data(), level, width, height, 1);
    EXPECT_OK(cuMemcpy3D_v2(&copy));
    EXPECT_EQ(out, pattern(width * height, i)) << "level " << i;
  }
  EXPECT_CU(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE);
  CUDA_ARRAY_MEMORY_REQUIREMENTS requirements;
  CUDA_ARRAY_SPARSE_PROPERTIES sparse;
  EXPECT_CU(cuMipmappedArrayGetMemoryRequirements(&requirements, mipmapped, device_),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMipmappedArrayGetSparseProperties(&sparse, mipmapped), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMipmappedArrayDestroy(mipmapped));
  EXPECT_CU(cuMipmappedArrayDestroy(mipmapped), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuMipmappedArrayGetLevel(&level, mipmapped, 0), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ArrayTest, TakesAndGivesDeviceMemory) {
  size_t before = 0, with = 0, after = 0, total = 0;
  EXPECT_OK(cuMemGetInfo_v2(&before, &total));
  {
    const Array array(describe(4096, 1024, 0, CU_AD_FORMAT_FLOAT, 4));  // 64 MiB
    EXPECT_OK(cuMemGetInfo_v2(&with, &total));
    EXPECT_LE(with + (64 << 20), before);
  }
  EXPECT_OK(cuMemGetInfo_v2(&after, &total));
  EXPECT_EQ(after, before);
  CUarray huge = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR d = describe(16384, 16384, 16384, CU_AD_FORMAT_FLOAT, 4);
  EXPECT_CU(cuArray3DCreate_v2(&huge, &d), CUDA_ERROR_OUT_OF_MEMORY);
}

// Memory that was once used otherwise is there for arrays again, and the other way round.
TEST_F(ArrayTest, TakesWhatWasFreed) {
  size_t free_bytes = 0, total = 0;
  ASSERT_OK(cuMemGetInfo_v2(&free_bytes, &total));
  const size_t piece = std::max<size_t>(total / 16, size_t{2} << 20);
  for (int round = 0; round < 2; ++round) {
    std::vector<CUdeviceptr> blocks;
    CUdeviceptr address = 0;
    while (blocks.size() < 64 && driver().cuMemAlloc_v2(&address, piece) == CUDA_SUCCESS)
      blocks.push_back(address);
    for (const CUdeviceptr each : blocks) EXPECT_OK(cuMemsetD8Async(each, 1, 4096, nullptr));
    for (const CUdeviceptr each : blocks) EXPECT_OK(cuMemFree_v2(each));
    const size_t rows = std::min<size_t>(free_bytes / 2 / 65536, 32768);
    const Array array(describe(16384, rows, 0, CU_AD_FORMAT_FLOAT, 1));
    const std::vector<uint8_t> data = pattern(65536, 1);
    const CUDA_MEMCPY3D copy = to_array(array, data.data(), 65536, 1, 1);
    EXPECT_OK(cuMemcpy3D_v2(&copy));
  }
}

TEST_F(ArrayTest, BelongsToItsContext) {
  const Array array(describe(16, 0, 0, CU_AD_FORMAT_FLOAT, 1));
  CUcontext other = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&other, 0, device_));
  CUDA_ARRAY3D_DESCRIPTOR back = {};
  CUarray lost = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR d = describe(16, 0, 0, CU_AD_FORMAT_FLOAT, 1);
  EXPECT_OK(cuArray3DCreate_v2(&lost, &d));
  EXPECT_OK(cuCtxDestroy_v2(other));  // with its array
  EXPECT_OK(cuCtxSetCurrent(context_));
  EXPECT_CU(cuArray3DGetDescriptor_v2(&back, lost), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuArrayDestroy(lost), CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace vgpu::conformance
