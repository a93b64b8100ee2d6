// Memory that two processes share by handles.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <thread>

#include "ipc_support.h"

namespace vgpu::conformance {
namespace {

// Small blocks share their pages with others; large ones are made of many.
TEST_F(IpcTest, AnotherProcessOpensSmallAndLargeBlocks) {
  const Words before(100), small(1000), large(5 << 20);
  EXPECT_OK(cuMemsetD32_v2(small.at(), 11, 1000));
  EXPECT_OK(cuMemsetD32_v2(large.at(), 22, 5 << 20));
  EXPECT_OK(cuCtxSynchronize());
  hand_over("VGPU_TEST_SMALL", handle_of(small.at()));
  hand_over("VGPU_TEST_LARGE", handle_of(large.at()));
  EXPECT_EQ(run_in_fresh_process("IpcTest.DISABLED_OpensBoth"), 0);
  EXPECT_EQ(word_at(small.at(999)), 33U);
  EXPECT_EQ(word_at(small.at(998)), 11U);
  EXPECT_EQ(word_at(large.at((5 << 20) - 1)), 44U);
  EXPECT_EQ(word_at(large.at(0)), 44U);
}

TEST_F(IpcTest, DISABLED_OpensBoth) {
  const CUipcMemHandle handle = handed_over("VGPU_TEST_SMALL");
  const CUdeviceptr small = open(handle);
  const CUdeviceptr large = open(handed_over("VGPU_TEST_LARGE"));
  EXPECT_EQ(word_at(small), 11U);
  EXPECT_EQ(word_at(small + 999 * 4), 11U);
  EXPECT_EQ(word_at(large + ((5 << 20) - 1) * 4), 22U);
  EXPECT_OK(cuMemsetD32_v2(small + 999 * 4, 33, 1));
  EXPECT_EQ(launch("fill", nullptr, large, 5 << 20, 44), CUDA_SUCCESS);
  EXPECT_OK(cuCtxSynchronize());
  // What it knows of the pointer.
  CUdeviceptr base = 0;
  size_t bytes = 0;
  EXPECT_OK(cuMemGetAddressRange_v2(&base, &bytes, large + 100));
  EXPECT_EQ(base, large);
  EXPECT_EQ(bytes, size_t{4} * (5 << 20));
  uint32_t word = 0;
  EXPECT_CU(cuMemcpyDtoH_v2(&word, large + bytes - 2, 4), CUDA_ERROR_INVALID_VALUE);
  // Neither its to free nor to hand on.
  EXPECT_CU(cuMemFree_v2(large), CUDA_ERROR_INVALID_VALUE);
  CUipcMemHandle again = {};
  EXPECT_CU(cuIpcGetMemHandle(&again, large), CUDA_ERROR_INVALID_VALUE);
  // Opened twice it is the same, and it is closed twice.
  EXPECT_EQ(open(handle), small);
  EXPECT_OK(cuIpcCloseMemHandle(small));
  EXPECT_EQ(word_at(small), 11U);
  EXPECT_OK(cuIpcCloseMemHandle(small));
  EXPECT_CU(cuIpcCloseMemHandle(small), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyDtoH_v2(&word, small, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuIpcCloseMemHandle(large));
  // And opened once more.
  const CUdeviceptr third = open(handle);
  EXPECT_EQ(word_at(third + 999 * 4), 33U);
  EXPECT_OK(cuIpcCloseMemHandle(third));
}

// What a context has opened ends with it; the same handle opens the memory again in another one.
TEST_F(IpcTest, AContextTakesWhatItHasOpened) {
  const Words large(1 << 20);
  EXPECT_OK(cuMemsetD32_v2(large.at(), 22, 1 << 20));
  EXPECT_OK(cuCtxSynchronize());
  hand_over("VGPU_TEST_LARGE", handle_of(large.at()));
  EXPECT_EQ(run_in_fresh_process("IpcTest.DISABLED_OpensInTwoContexts"), 0);
}

TEST_F(IpcTest, DISABLED_OpensInTwoContexts) {
  const CUipcMemHandle handle = handed_over("VGPU_TEST_LARGE");
  CUcontext other = nullptr;
  size_t before = 0, opened = 0, after = 0, total = 0;
  EXPECT_OK(cuMemGetInfo_v2(&before, &total));
  ASSERT_OK(cuCtxCreate_v4(&other, nullptr, 0, device_));
  EXPECT_EQ(word_at(open(handle)), 22U);
  EXPECT_OK(cuMemGetInfo_v2(&opened, &total));
  ASSERT_OK(cuCtxDestroy_v2(other));
  ASSERT_OK(cuCtxSetCurrent(context_));
  EXPECT_OK(cuMemGetInfo_v2(&after, &total));
  EXPECT_LE(opened, before);
  EXPECT_EQ(after, before) << "with the context";
  const Words own(1 << 20);  // perhaps where the other context had it
  EXPECT_OK(cuMemsetD32_v2(own.at(), 1, 1 << 20));
  const CUdeviceptr here = open(handle);
  EXPECT_NE(here, own.at());
  EXPECT_EQ(word_at(here), 22U);
  EXPECT_OK(cuIpcCloseMemHandle(here));
  EXPECT_EQ(word_at(own.at()), 1U);
}

TEST_F(IpcTest, WrongCalls) {
  const Words words(64);
  CUipcMemHandle handle = handle_of(words.at());
  CUdeviceptr address = 0;
  // In the process that has made it.
  EXPECT_CU(cuIpcOpenMemHandle_v2(&address, handle, kLazy), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuIpcOpenMemHandle_v2(&address, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuIpcOpenMemHandle_v2(nullptr, handle, kLazy), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuIpcGetMemHandle(nullptr, words.at()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuIpcGetMemHandle(&handle, 0x1000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuIpcCloseMemHandle(words.at()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuIpcCloseMemHandle(0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuIpcOpenMemHandle_v2(&address, CUipcMemHandle{}, kLazy), CUDA_ERROR_INVALID_VALUE);
  void* pinned = nullptr;
  EXPECT_OK(cuMemHostAlloc(&pinned, 4096, 0));
  EXPECT_CU(cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(pinned)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemFreeHost(pinned));
  CUdeviceptr pooled = 0;
  EXPECT_OK(cuMemAllocAsync(&pooled, 4096, nullptr));
  EXPECT_CU(cuIpcGetMemHandle(&handle, pooled), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemFreeAsync(pooled, nullptr));
}

TEST_F(IpcTest, PointersSayWhetherTheyCanBeShared) {
  const Words words(64);
  bool capable = false;
  EXPECT_OK(
      cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, words.at()));
  EXPECT_TRUE(capable);
}

// Every bit of a handle counts; one that was freed is worth nothing.
TEST_F(IpcTest, ForgedAndFreedHandlesOpenNothing) {
  const Words words(1 << 20);
  const CUipcMemHandle handle = handle_of(words.at());
  hand_over("VGPU_TEST_LARGE", handle);
  CUdeviceptr other = 0;
  EXPECT_OK(cuMemAlloc_v2(&other, size_t{4} << 20));
  const CUipcMemHandle freed = handle_of(other);
  EXPECT_NE(std::memcmp(&freed, &handle, sizeof(handle)), 0);
  EXPECT_OK(cuMemFree_v2(other));
  hand_over("VGPU_TEST_SMALL", freed);
  EXPECT_EQ(run_in_fresh_process("IpcTest.DISABLED_TriesForgedHandles"), 0);
}

TEST_F(IpcTest, DISABLED_TriesForgedHandles) {
  CUdeviceptr address = 0;
  EXPECT_CU(cuIpcOpenMemHandle_v2(&address, handed_over("VGPU_TEST_SMALL"), kLazy),
            CUDA_ERROR_INVALID_VALUE);
  const CUipcMemHandle real = handed_over("VGPU_TEST_LARGE");
  for (size_t byte = 0; byte < 40; byte += 3) {
    CUipcMemHandle forged = real;
    forged.reserved[byte] = static_cast<char>(forged.reserved[byte] ^ 0x10);
    const CUresult result = driver().cuIpcOpenMemHandle_v2(&address, forged, kLazy);
    if (result != CUDA_SUCCESS) continue;
    // An offset is nobody's secret: the software GPU's handle has one there.
    EXPECT_GE(byte, 32U);
    EXPECT_OK(cuIpcCloseMemHandle(address));
  }
  address = open(real);
  EXPECT_OK(cuIpcCloseMemHandle(address));
}

// Whoever has opened memory keeps it when it is freed, as it was; and what comes to lie at the same
// address in the other process is not shown to it.
TEST_F(IpcTest, OpenedMemoryOutlivesItsCreator) {
  const Words mailbox(16);
  EXPECT_OK(cuMemsetD32_v2(mailbox.at(), 0, 16));
  CUdeviceptr large = 0;
  EXPECT_OK(cuMemAlloc_v2(&large, size_t{8} << 20));
  EXPECT_OK(cuMemsetD32_v2(large, 77, 2 << 20));
  EXPECT_OK(cuCtxSynchronize());
  hand_over("VGPU_TEST_SMALL", handle_of(mailbox.at()));
  hand_over("VGPU_TEST_LARGE", handle_of(large));
  int code = -1;
  std::thread child([&code] { code = run_in_fresh_process("IpcTest.DISABLED_OutlivesItsParent"); });
  await(mailbox.at(), 1);
  EXPECT_OK(cuMemFree_v2(large));
  const Words next(2 << 20);
  EXPECT_OK(cuMemsetD32_v2(next.at(), 88, 2 << 20));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuMemsetD32_v2(mailbox.at(1), 1, 1));
  child.join();
  EXPECT_EQ(code, 0);
  EXPECT_EQ(next.read(), std::vector<uint32_t>(2 << 20, 88));
}

TEST_F(IpcTest, DISABLED_OutlivesItsParent) {
  const CUdeviceptr mailbox = open(handed_over("VGPU_TEST_SMALL"));
  const CUdeviceptr large = open(handed_over("VGPU_TEST_LARGE"));
  EXPECT_EQ(word_at(large), 77U);
  EXPECT_OK(cuMemsetD32_v2(mailbox, 1, 1));
  EXPECT_OK(cuCtxSynchronize());
  await(mailbox + 4, 1);
  std::vector<uint32_t> words(2 << 20);
  EXPECT_OK(cuMemcpyDtoH_v2(words.data(), large, size_t{8} << 20));
  EXPECT_EQ(words, std::vector<uint32_t>(2 << 20, 77));
  EXPECT_OK(cuMemsetD32_v2(large, 99, 2 << 20));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuIpcCloseMemHandle(large));
  EXPECT_OK(cuIpcCloseMemHandle(mailbox));
}

// What was opened counts as this process' as long as it is.
TEST_F(IpcTest, MemoryComesBack) {
  size_t free_before = 0, free_after = 0, total = 0;
  for (int round = 0; round < 3; ++round) {
    CUdeviceptr large = 0;
    EXPECT_OK(cuMemAlloc_v2(&large, size_t{64} << 20));
    EXPECT_OK(cuMemsetD32_v2(large, 5, 16 << 20));
    EXPECT_OK(cuCtxSynchronize());
    hand_over("VGPU_TEST_LARGE", handle_of(large));
    EXPECT_EQ(run_in_fresh_process("IpcTest.DISABLED_OpensAndEnds"), 0);
    EXPECT_EQ(word_at(large), 6U);
    EXPECT_OK(cuMemFree_v2(large));
    EXPECT_OK(cuMemGetInfo_v2(round == 0 ? &free_before : &free_after, &total));
  }
  EXPECT_EQ(free_before, free_after);
}

TEST_F(IpcTest, DISABLED_OpensAndEnds) {
  const CUdeviceptr large = open(handed_over("VGPU_TEST_LARGE"));
  EXPECT_EQ(word_at(large), 5U);
  EXPECT_OK(cuMemsetD32_v2(large, 6, 1));
  EXPECT_OK(cuCtxSynchronize());
}

}  // namespace
}  // namespace vgpu::conformance
