// Batches of copies of boxes, between memory and arrays.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

constexpr auto kInOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
constexpr auto kDuringCall = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
constexpr auto kAny = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;

CUdeviceptr at(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

std::vector<uint32_t> all(size_t n, uint32_t value) { return std::vector<uint32_t>(n, value); }

// Arrays of float2: 6 x 5 x 4 elements of 8 bytes.
class BoxBatchTest : public KernelTest {
 protected:
  static constexpr size_t kWidth = 6, kHeight = 5, kDepth = 4;
  void SetUp() override {
    KernelTest::SetUp();
    CUDA_ARRAY3D_DESCRIPTOR shape = {};
    shape.Width = kWidth;
    shape.Height = kHeight;
    shape.Depth = kDepth;
    shape.Format = CU_AD_FORMAT_FLOAT;
    shape.NumChannels = 2;
    for (CUarray& array : arrays_) ASSERT_OK(cuArray3DCreate_v2(&array, &shape));
    shape.NumChannels = 1;
    ASSERT_OK(cuArray3DCreate_v2(&narrow_, &shape));
  }
  void TearDown() override {
    for (CUarray array : arrays_) EXPECT_OK(cuArrayDestroy(array));
    EXPECT_OK(cuArrayDestroy(narrow_));
    KernelTest::TearDown();
  }
  static CUmemcpy3DOperand memory(CUdeviceptr address, size_t row = 0, size_t rows = 0) {
    CUmemcpy3DOperand operand = {};
    operand.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    operand.op.ptr.ptr = address;
    operand.op.ptr.rowLength = row;
    operand.op.ptr.layerHeight = rows;
    return operand;
  }
  static CUmemcpy3DOperand in(CUarray array, CUoffset3D offset = {0, 0, 0}) {
    CUmemcpy3DOperand operand = {};
    operand.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    operand.op.array.array = array;
    operand.op.array.offset = offset;
    return operand;
  }
  static CUDA_MEMCPY3D_BATCH_OP copy(const CUmemcpy3DOperand& to, const CUmemcpy3DOperand& from,
                                     CUextent3D extent, CUmemcpySrcAccessOrder order = kInOrder) {
    CUDA_MEMCPY3D_BATCH_OP result = {};
    result.dst = to;
    result.src = from;
    result.extent = extent;
    result.srcAccessOrder = order;
    return result;
  }
  CUarray arrays_[2] = {};
  CUarray narrow_ = nullptr;
};

TEST_F(BoxBatchTest, MemoryToArrayToArrayToMemory) {
  Stream stream;
  // Rows of 7 elements and layers of 6 rows around the box.
  std::vector<uint64_t> source(7 * 6 * kDepth, 0), out(kWidth * kHeight * kDepth, 0);
  const auto element = [](size_t x, size_t y, size_t z) { return x + 10 * y + 100 * z + 1; };
  for (size_t z = 0; z < kDepth; ++z) {
    for (size_t y = 0; y < kHeight; ++y) {
      for (size_t x = 0; x < kWidth; ++x) source[(z * 6 + y) * 7 + x] = element(x, y, z);
    }
  }
  for (const auto order : {kInOrder, kDuringCall, kAny}) {
    CUDA_MEMCPY3D_BATCH_OP there =
        copy(in(arrays_[0]), memory(at(source.data()), 7, 6), {kWidth, kHeight, kDepth}, order);
    ASSERT_OK(cuMemcpy3DBatchAsync_v2(1, &there, 0, stream));
    // A box of the array to another place in the other, in parts.
    CUDA_MEMCPY3D_BATCH_OP parts[] = {
        copy(in(arrays_[1], {1, 1, 1}), in(arrays_[0]), {2, 3, 3}, order),
        copy(in(arrays_[1], {3, 1, 1}), in(arrays_[0], {2, 0, 0}), {3, 3, 3}, order),
        copy(in(arrays_[1]), in(arrays_[0], {5, 4, 3}), {1, 1, 1}, order)};
    size_t failed = 0;
    ASSERT_OK(cuMemcpy3DBatchAsync(3, parts, &failed, 0, stream));
    EXPECT_EQ(failed, SIZE_MAX);
    CUDA_MEMCPY3D_BATCH_OP back =
        copy(memory(at(out.data())), in(arrays_[1]), {kWidth, kHeight, kDepth}, order);
    ASSERT_OK(cuMemcpy3DBatchAsync_v2(1, &back, 0, stream));
    ASSERT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(out[0], element(5, 4, 3));
    for (size_t z = 0; z < 3; ++z) {
      for (size_t y = 0; y < 3; ++y) {
        for (size_t x = 0; x < 5; ++x) {
          EXPECT_EQ(out[((z + 1) * kHeight + y + 1) * kWidth + x + 1], element(x, y, z));
        }
      }
    }
    std::fill(out.begin(), out.end(), 0);
  }
}

TEST_F(BoxBatchTest, BetweenAddressesElementsAreBytes) {
  Stream stream;
  const Words words(64);
  words.write(all(64, 0x01010101));
  std::vector<uint8_t> source(64, 9);
  CUDA_MEMCPY3D_BATCH_OP box =
      copy(memory(words.at() + 1, 16, 4), memory(at(source.data()), 8), {3, 4, 2});
  ASSERT_OK(cuMemcpy3DBatchAsync_v2(1, &box, 0, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  const std::vector<uint32_t> got = words.read();
  for (size_t row = 0; row < 16; ++row)
    EXPECT_EQ(got[row * 4], row < 8 ? 0x09090901U : 0x01010101U) << row;
}

TEST_F(BoxBatchTest, BadBoxes) {
  Stream stream;
  const Words words(256);
  words.write(all(256, 1));
  const CUextent3D one = {1, 1, 1}, whole = {kWidth, kHeight, kDepth};
  const CUmemcpy3DOperand here = memory(words.at());
  std::vector<uint32_t> host = all(1024, 3);
  const CUDA_MEMCPY3D_BATCH_OP good = copy(here, memory(at(host.data())), one);
  const auto refused = [&](const CUDA_MEMCPY3D_BATCH_OP& bad) {
    CUDA_MEMCPY3D_BATCH_OP copies[] = {good, bad, good};
    size_t failed = 77;
    const CUresult r = driver().cuMemcpy3DBatchAsync(3, copies, &failed, 0, stream);
    EXPECT_EQ(failed, 1U);
    return r;
  };
  EXPECT_EQ(refused(copy(here, in(arrays_[0]), {0, 1, 1})), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused(copy(here, in(arrays_[0]), {1, 0, 1})), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused(copy(here, in(arrays_[0]), {1, 1, 0})), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused(copy(here, in(arrays_[0], {1, 0, 0}), whole)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused(copy(here, in(arrays_[0], {SIZE_MAX / 4, 0, 0}), one)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused(copy(in(narrow_), in(arrays_[0]), one)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused(copy(here, in(garbage_handle<CUarray>()), one)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(refused(copy(memory(0), in(arrays_[0]), one)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused(copy(memory(words.at(), 5), in(arrays_[0]), whole)),
            CUDA_ERROR_INVALID_VALUE);  // rows shorter than the box
  EXPECT_EQ(refused(copy(memory(words.at(), 6, 4), in(arrays_[0]), whole)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused(copy(memory(words.at(), SIZE_MAX / 8), in(arrays_[0]), one)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused(copy(memory(words.at(64)), in(arrays_[0]), whole)),
            CUDA_ERROR_INVALID_VALUE);  // ends outside
  EXPECT_EQ(refused(copy(here, in(arrays_[0]), one, CU_MEMCPY_SRC_ACCESS_ORDER_INVALID)),
            CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D_BATCH_OP odd = good;
  odd.flags = 4;
  EXPECT_EQ(refused(odd), CUDA_ERROR_INVALID_VALUE);
  odd = good;
  odd.src.type = static_cast<CUmemcpy3DOperandType>(7);
  EXPECT_EQ(refused(odd), CUDA_ERROR_INVALID_VALUE);
  odd = good;
  size_t failed = 0;
  EXPECT_CU(cuMemcpy3DBatchAsync(1, &odd, &failed, 1, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, SIZE_MAX);
  EXPECT_CU(cuMemcpy3DBatchAsync_v2(0, &odd, 0, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpy3DBatchAsync_v2(1, nullptr, 0, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpy3DBatchAsync_v2(1, &odd, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), all(256, 1));
}

}  // namespace
}  // namespace vgpu::conformance
