// Batches of copies: what they copy, when they read it, and that a bad one does nothing.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <algorithm>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

constexpr auto kInOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
constexpr auto kDuringCall = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
constexpr auto kAny = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;

CUdeviceptr at(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

std::vector<uint32_t> all(size_t n, uint32_t value) { return std::vector<uint32_t>(n, value); }

CUmemcpyAttributes attributes(CUmemcpySrcAccessOrder order, unsigned flags = 0) {
  CUmemcpyAttributes result = {};
  result.srcAccessOrder = order;
  result.flags = flags;
  return result;
}

// Pinned memory of n words, freed at the end.
class Pinned {
 public:
  Pinned(size_t n, uint32_t value) : n_(n) {
    void* memory = nullptr;
    EXPECT_OK(cuMemHostAlloc(&memory, n * 4, 0));
    words_ = static_cast<uint32_t*>(memory);
    fill(value);
  }
  ~Pinned() { EXPECT_OK(cuMemFreeHost(words_)); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  void fill(uint32_t value) { std::fill_n(words_, n_, value); }
  std::vector<uint32_t> read() const { return {words_, words_ + n_}; }
  CUdeviceptr address() const { return at(words_); }

 private:
  size_t n_;
  uint32_t* words_ = nullptr;
};

// A batch whose copies share attributes.
struct Batch {
  std::vector<CUdeviceptr> to, from;
  std::vector<size_t> bytes;
  void add(CUdeviceptr destination, CUdeviceptr source, size_t size) {
    to.push_back(destination);
    from.push_back(source);
    bytes.push_back(size);
  }
  CUresult submit(CUstream stream, CUmemcpySrcAccessOrder order, size_t* failed) {
    CUmemcpyAttributes shared = attributes(order);
    size_t start = 0;
    return driver().cuMemcpyBatchAsync(to.data(), from.data(), bytes.data(), to.size(), &shared,
                                       &start, 1, failed, stream);
  }
  CUresult submit(CUstream stream, CUmemcpySrcAccessOrder order) {
    CUmemcpyAttributes shared = attributes(order);
    size_t start = 0;
    return driver().cuMemcpyBatchAsync_v2(to.data(), from.data(), bytes.data(), to.size(), &shared,
                                          &start, 1, stream);
  }
};

// A host function that takes its time before it writes.
struct LateWrite {
  uint32_t* words;
  size_t n;
  uint32_t value;
  static void run(void* user) {
    const auto* self = static_cast<LateWrite*>(user);
    ::poll(nullptr, 0, 30);
    std::fill_n(self->words, self->n, self->value);
  }
};

class BatchTest : public KernelTest {};

TEST_F(BatchTest, CopiesBetweenAllKindsOfMemory) {
  Stream stream;
  const size_t n = 3000;
  for (const auto order : {kInOrder, kDuringCall, kAny}) {
    const Words device(n), other(n), third(n);
    const Pinned pinned(n, 5), pinned_target(n, 0);
    std::vector<uint32_t> pageable = all(n, 6), pageable_target = all(n, 0);
    std::vector<uint32_t> host_target = all(n, 0);
    third.write(all(n, 7));
    Batch batch;
    batch.add(device.at(), pinned.address(), n * 4);
    batch.add(other.at(), at(pageable.data()), n * 4);
    batch.add(pinned_target.address(), third.at(), n * 4);
    batch.add(at(pageable_target.data()), third.at(), n * 4);
    batch.add(at(host_target.data()), at(pageable.data()), n * 4);
    ASSERT_EQ(batch.submit(stream, order), CUDA_SUCCESS);
    ASSERT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(device.read(), all(n, 5));
    EXPECT_EQ(other.read(), all(n, 6));
    EXPECT_EQ(pinned_target.read(), all(n, 7));
    EXPECT_EQ(pageable_target, all(n, 7));
    EXPECT_EQ(host_target, all(n, 6));
    Batch inside;
    inside.add(device.at(), third.at(), n * 2);
    inside.add(device.at(n / 2), other.at(), n * 2);
    ASSERT_EQ(inside.submit(stream, order), CUDA_SUCCESS);
    ASSERT_OK(cuStreamSynchronize(stream));
    std::vector<uint32_t> want = all(n, 7);
    std::fill_n(want.begin() + n / 2, n / 2, 6);
    EXPECT_EQ(device.read(), want);
  }
}

TEST_F(BatchTest, TheStreamsOrderHoldsForOrdinaryMemoryToo) {
  Stream stream;
  const Words words(64), boxed(64);
  std::vector<uint32_t> source = all(64, 1);
  LateWrite write{source.data(), source.size(), 2};
  ASSERT_OK(cuLaunchHostFunc(stream, LateWrite::run, &write));
  Batch batch;
  batch.add(words.at(), at(source.data()), 128);
  batch.add(words.at(32), at(source.data() + 32), 128);
  ASSERT_EQ(batch.submit(stream, kInOrder), CUDA_SUCCESS);
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), all(64, 2));

  write.value = 3;
  ASSERT_OK(cuLaunchHostFunc(stream, LateWrite::run, &write));
  CUDA_MEMCPY3D_BATCH_OP box = {};
  box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  box.src.op.ptr.ptr = at(source.data());
  box.dst.op.ptr.ptr = boxed.at();
  box.extent = {64, 4, 1};
  box.srcAccessOrder = kInOrder;
  ASSERT_OK(cuMemcpy3DBatchAsync_v2(1, &box, 0, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(boxed.read(), all(64, 3));
}

// The stream stands still: the bytes must have been taken when the call returns.
TEST_F(BatchTest, SourcesMayChangeAfterACallThatReadsThemItself) {
  Stream stream;
  const Words words(2048), boxed(2048);
  Pinned pinned(1024, 1);
  std::vector<uint32_t> pageable = all(1024, 2);
  Gate gate(function("gate"), stream);
  Batch batch;
  batch.add(words.at(), pinned.address(), 4096);
  batch.add(words.at(1024), at(pageable.data()), 4096);
  ASSERT_EQ(batch.submit(stream, kDuringCall), CUDA_SUCCESS);
  CUDA_MEMCPY3D_BATCH_OP boxes[2] = {};
  for (CUDA_MEMCPY3D_BATCH_OP& box : boxes) {
    box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    box.extent = {1024, 4, 1};
    box.srcAccessOrder = kDuringCall;
  }
  boxes[0].src.op.ptr.ptr = pinned.address();
  boxes[0].dst.op.ptr.ptr = boxed.at();
  boxes[1].src.op.ptr.ptr = at(pageable.data());
  boxes[1].dst.op.ptr.ptr = boxed.at(1024);
  ASSERT_OK(cuMemcpy3DBatchAsync_v2(2, boxes, 0, stream));
  pinned.fill(100);
  pageable = all(1024, 100);
  EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  gate.open();
  ASSERT_OK(cuStreamSynchronize(stream));
  std::vector<uint32_t> want = all(2048, 2);
  std::fill_n(want.begin(), 1024, 1);
  EXPECT_EQ(words.read(), want);
  EXPECT_EQ(boxed.read(), want);
}

TEST_F(BatchTest, SourcesOnTheDeviceMayChangeAfterSuchACallToo) {
  Stream stream, other;
  const Words source(64), target(64);
  source.write(all(64, 1));
  std::vector<uint32_t> ignored = all(1, 0);
  LateWrite write{ignored.data(), 1, 1};
  ASSERT_OK(cuLaunchHostFunc(stream, LateWrite::run, &write));
  Batch batch;
  batch.add(target.at(), source.at(), 256);
  ASSERT_EQ(batch.submit(stream, kDuringCall), CUDA_SUCCESS);
  ASSERT_OK(cuMemsetD32Async(source.at(), 9, 64, other));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(target.read(), all(64, 1));
}

TEST_F(BatchTest, RunsOfAttributes) {
  Stream stream;
  const Words words(30);
  std::vector<uint32_t> source(30);
  for (uint32_t i = 0; i < 30; ++i) source[i] = i;
  Batch batch;
  for (uint32_t i = 0; i < 30; ++i) batch.add(words.at(29 - i), at(source.data() + i), 4);
  CUmemcpyAttributes kinds[] = {attributes(kInOrder),
                                attributes(kDuringCall, CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE),
                                attributes(kAny)};
  size_t starts[] = {0, 1, 29};
  const auto submit = [&](size_t count, size_t parts) {
    return driver().cuMemcpyBatchAsync_v2(batch.to.data(), batch.from.data(), batch.bytes.data(),
                                          count, kinds, starts, parts, stream);
  };
  EXPECT_EQ(submit(30, 3), CUDA_SUCCESS);
  ASSERT_OK(cuStreamSynchronize(stream));
  for (uint32_t i = 0; i < 30; ++i) EXPECT_EQ(words.read()[i], 29 - i);
  EXPECT_EQ(submit(30, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(submit(0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(submit(0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(submit(29, 3), CUDA_ERROR_INVALID_VALUE);  // the last run would be empty
  EXPECT_EQ(submit(2, 3), CUDA_ERROR_INVALID_VALUE);
  starts[0] = 1;
  EXPECT_EQ(submit(30, 1), CUDA_ERROR_INVALID_VALUE);
  starts[0] = 0;
  starts[2] = 1;  // does not rise
  EXPECT_EQ(submit(30, 3), CUDA_ERROR_INVALID_VALUE);
  starts[2] = 29;
  kinds[2].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
  EXPECT_EQ(submit(30, 3), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(submit(29, 2), CUDA_SUCCESS);
  kinds[1].flags = 2;
  EXPECT_EQ(submit(29, 2), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(BatchTest, ABadCopyIsNamedAndNothingIsDone) {
  Stream stream;
  const Words words(64);
  words.write(all(64, 1));
  std::vector<uint32_t> source = all(64, 2);
  Batch batch;
  batch.add(words.at(), at(source.data()), 64);
  batch.add(words.at(16), at(source.data()), 64);
  batch.add(0, at(source.data()), 64);
  batch.add(words.at(32), at(source.data()), 64);
  size_t failed = 77;
  EXPECT_EQ(batch.submit(stream, kInOrder, &failed), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, 2U);
  batch.to[2] = words.at(60);  // ends outside
  failed = 77;
  EXPECT_EQ(batch.submit(stream, kInOrder, &failed), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, 2U);
  batch.to[2] = words.at(48);
  batch.bytes[3] = 0;
  EXPECT_EQ(batch.submit(stream, kInOrder, &failed), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, 3U);
  EXPECT_EQ(batch.submit(stream, kInOrder, nullptr), CUDA_ERROR_INVALID_VALUE);
  batch.bytes[3] = 64;
  EXPECT_EQ(batch.submit(nullptr, kInOrder, &failed), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, SIZE_MAX);
  EXPECT_EQ(batch.submit(CU_STREAM_LEGACY, kInOrder, &failed), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), all(64, 1));
  EXPECT_EQ(batch.submit(CU_STREAM_PER_THREAD, kInOrder, &failed), CUDA_SUCCESS);
  ASSERT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  EXPECT_EQ(words.read(), all(64, 2));
}

TEST_F(BatchTest, ACaptureRefusesThemAndGoesOn) {
  Stream stream;
  const Words words(16), boxed(16);
  words.write(all(16, 1));
  const Pinned source(16, 2);
  Batch batch;
  batch.add(words.at(), source.address(), 64);
  CUDA_MEMCPY3D_BATCH_OP box = {};
  box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  box.src.op.ptr.ptr = source.address();
  box.dst.op.ptr.ptr = boxed.at();
  box.extent = {64, 1, 1};
  box.srcAccessOrder = kInOrder;
  ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_EQ(batch.submit(stream, kInOrder), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_CU(cuMemcpy3DBatchAsync_v2(1, &box, 0, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  EXPECT_OK(cuStreamEndCapture(stream, &graph));
  EXPECT_OK(cuGraphDestroy(graph));
  EXPECT_EQ(words.read(), all(16, 1));
  EXPECT_EQ(batch.submit(stream, kInOrder), CUDA_SUCCESS);
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), all(16, 2));
}

}  // namespace
}  // namespace vgpu::conformance
