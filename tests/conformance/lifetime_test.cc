// What lives how long, and who may touch it when: code, pinned memory, copies, many handles.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

class LifetimeTest : public KernelTest {
 protected:
  uint32_t* pinned(size_t words) {
    void* memory = nullptr;
    EXPECT_OK(cuMemHostAlloc(&memory, words * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    return static_cast<uint32_t*>(memory);
  }
};

// Memory is freed while another context is current than the one that copies it.
TEST_F(LifetimeTest, FreeingWaitsForTheContextOfTheMemory) {
  constexpr size_t kBytes = size_t{32} << 20;
  CUcontext other = nullptr;
  ASSERT_OK(cuCtxCreate_v4(&other, nullptr, 0, device_));
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 4; ++i) {
    CUdeviceptr from = 0, to = 0;
    ASSERT_OK(cuCtxSetCurrent(other));
    ASSERT_OK(cuMemAlloc_v2(&from, kBytes));
    ASSERT_OK(cuMemAlloc_v2(&to, kBytes));
    EXPECT_OK(cuMemcpyDtoDAsync_v2(to, from, kBytes, stream));
    ASSERT_OK(cuCtxSetCurrent(context_));
    EXPECT_OK(cuMemFree_v2(to));
    EXPECT_OK(cuMemFree_v2(from));
    ASSERT_OK(cuCtxSetCurrent(other));
    EXPECT_OK(cuStreamSynchronize(stream));
  }
  EXPECT_OK(cuCtxDestroy_v2(other));
  ASSERT_OK(cuCtxSetCurrent(context_));
}

// Frees of much memory, or of many blocks, make guests look how far their work is: whoever waits
// for the context afterwards waits for that work as before.
TEST_F(LifetimeTest, WaitingForAContextKnowsTheWorkBeforeAFree) {
  for (const bool destroys : {false, true}) {
    for (const bool legacy : {false, true}) {
      CUdeviceptr large = 0;
      ASSERT_OK(cuMemAlloc_v2(&large, size_t{128} << 20));
      CUstream stream = nullptr;
      if (!legacy) ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      std::atomic<bool> opened{false};
      auto gate = std::make_unique<Gate>(function("gate"), stream);
      std::thread opener([&] {
        ::poll(nullptr, 0, 60);
        opened.store(true);
        gate->open();
      });
      EXPECT_OK(cuMemFree_v2(large));
      if (destroys && !legacy) EXPECT_OK(cuStreamDestroy_v2(stream));
      EXPECT_OK(cuCtxSynchronize());
      EXPECT_TRUE(opened.load()) << (legacy ? "legacy" : "other") << " stream";
      opener.join();
      if (destroys && !legacy) (void)gate.release();  // its stream is gone
      gate.reset();
      if (!destroys && !legacy) EXPECT_OK(cuStreamDestroy_v2(stream));
    }
  }
}

TEST_F(LifetimeTest, AForkedChildExitsWhileCodeIsCompiled) {
  EXPECT_EQ(run_in_fresh_process("LifetimeTest.DISABLED_ForksWhileCodeIsCompiled"), 0);
}

// Code that no process has seen before, so that it is in no cache, and much of it.
std::string fresh_code() {
  std::string text =
      ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry fresh() {\n"
      ".reg .b32 %r<4>;\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %tid.y;\n";
  std::random_device random;
  for (int i = 0; i < 3000; ++i)
    text += "mad.lo.u32 %r1, %r2, " + std::to_string(random()) + ", %r1;\nxor.b32 %r2, %r2, %r1;\n";
  return text + ".reg .pred %p1;\nsetp.eq.u32 %p1, %r1, 77777;\n@%p1 trap;\nret;\n}\n";
}

TEST_F(LifetimeTest, DISABLED_ForksWhileCodeIsCompiled) {
  CUmodule module = nullptr;
  CUfunction fresh = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, fresh_code().c_str()));
  ASSERT_OK(cuModuleGetFunction(&fresh, module, "fresh"));
  EXPECT_OK(cuLaunchKernel(fresh, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr));
  const pid_t child = ::fork();
  if (child == 0) std::exit(7);  // with exit handlers
  int status = -1;
  for (int i = 0; i < 10'000 && ::waitpid(child, &status, WNOHANG) != child; ++i)
    ::poll(nullptr, 0, 1);
  EXPECT_EQ(status, 7 << 8) << "the child hangs";
  ::kill(child, SIGKILL);
  EXPECT_OK(cuCtxSynchronize());
}

TEST_F(LifetimeTest, CodeIsUnloadedWhileItsWorkIsQueued) {
  Stream stream;
  const Words words(300);
  words.write(std::vector<uint32_t>(300, 1));
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kKernels));
  ASSERT_OK(cuModuleGetFunction(&add, module, "add"));
  {
    Gate gate(function("gate"), stream);
    CUdeviceptr data = words.at();
    uint32_t n = 300, value = 5;
    void* params[] = {&data, &n, &value};
    EXPECT_OK(cuLaunchKernel(add, 3, 1, 1, 128, 1, 1, 0, stream, params, nullptr));
    // A driver may wait here for the work, so somebody else opens the gate.
    std::thread opener([&gate] {
      ::poll(nullptr, 0, 30);
      gate.open();
    });
    EXPECT_OK(cuModuleUnload(module));
    opener.join();
  }
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(300, 6));
}

TEST_F(LifetimeTest, AnEventShowsTheCopiesBeforeItToOtherThreads) {
  for (CUstream stream : {CUstream{nullptr}, CU_STREAM_PER_THREAD}) {
    for (uint32_t round = 1; round <= 20; ++round) {
      const Words words(4096);
      uint32_t* back = pinned(4096);
      const Event event(CU_EVENT_DISABLE_TIMING);
      EXPECT_EQ(launch("fill", stream, words.at(), 4096, round), CUDA_SUCCESS);
      EXPECT_OK(cuMemcpyDtoHAsync_v2(back, words.at(), words.bytes(), stream));
      EXPECT_OK(cuEventRecord(event, stream));
      std::thread([&] {
        EXPECT_OK(cuCtxSetCurrent(context_));
        EXPECT_OK(cuEventSynchronize(event));
        EXPECT_EQ(back[0], round);
        EXPECT_EQ(back[4095], round);
      }).join();
      EXPECT_OK(cuMemFreeHost(back));
    }
  }
}

// Has a name for tests/tsan.supp.
[[gnu::noinline]] void write_behind_the_gate(uint32_t* word, uint32_t value) { *word = value; }

TEST_F(LifetimeTest, CopiesOfPinnedMemoryReturnBeforeTheirTurn) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  Stream stream;
  const Words words(64);
  uint32_t* memory = pinned(64);
  {
    Gate gate(function("gate"), stream);
    EXPECT_OK(cuMemcpyHtoDAsync_v2(words.at(), memory, 256, stream));
    EXPECT_OK(cuMemcpyDtoHAsync_v2(memory, words.at(), 256, stream));
    EXPECT_OK(cuMemcpyDtoDAsync_v2(words.at(32), words.at(), 128, stream));
    EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    write_behind_the_gate(memory, 9);  // the copies have not happened yet: this is what they take
    gate.open();
    EXPECT_OK(cuStreamSynchronize(stream));
  }
  EXPECT_EQ(words.read()[32], 9U);
  EXPECT_OK(cuMemFreeHost(memory));
}

TEST_F(LifetimeTest, PinnedMemoryKeepsWhatTheHostWrote) {
  uint32_t* memory = pinned(2048);
  const Words words(16);
  for (uint32_t round = 0; round < 1000; ++round) {
    memory[round] = round;
    if (round % 100 == 0) {
      ASSERT_EQ(launch("fill", nullptr, words.at(), 16, round), CUDA_SUCCESS);
    }
    EXPECT_OK(cuCtxSynchronize());
    ASSERT_EQ(memory[round / 2], round / 2);
  }
  EXPECT_OK(cuMemFreeHost(memory));
}

// Stores a 7 where the second word of a table of pointers leads.
constexpr char kFollow[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry follow(.param .u64 table)
{
  .reg .b32 %r<2>; .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [table];
  ld.global.u64 %rd1, [%rd0+8];
  mov.u32 %r0, 7;
  st.global.u32 [%rd1], %r0;
  ret;
}
)";

TEST_F(LifetimeTest, HostAddressesInsideStructuresMeanTheSameOnTheDevice) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  CUmodule module = nullptr;
  CUfunction follow = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kFollow));
  ASSERT_OK(cuModuleGetFunction(&follow, module, "follow"));
  uint32_t* memory = pinned(8);
  memory[5] = 0;
  CUdeviceptr alias = 0;
  ASSERT_OK(cuMemHostGetDevicePointer_v2(&alias, memory, 0));
  const Words table(4);
  const uint64_t pointers[2] = {0, alias + 20};
  ASSERT_OK(cuMemcpyHtoD_v2(table.at(), pointers, sizeof(pointers)));
  CUdeviceptr address = table.at();
  void* params[] = {&address};
  EXPECT_OK(cuLaunchKernel(follow, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(memory[5], 7U);
  EXPECT_OK(cuModuleUnload(module));
  EXPECT_OK(cuMemFreeHost(memory));
}

// A kernel with one structure of `bytes` that adds all its words.
std::string summing_kernel(size_t bytes) {
  return ".version 8.1\n.target sm_70\n.address_size 64\n.visible .entry total(.param .u64 out, "
         ".param .align 8 .b8 block[" +
         std::to_string(bytes) +
         "])\n{\n.reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<8>;\nld.param.u64 %rd0, [out];\n"
         "mov.b64 %rd1, block;\nmov.u32 %r0, 0;\nmov.u32 %r1, 0;\nAGAIN:\n"
         "mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, %rd2;\nld.param.u32 %r2, [%rd3];\n"
         "add.u32 %r0, %r0, %r2;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p, %r1, " +
         std::to_string(bytes / 4) + ";\n@%p bra AGAIN;\nst.global.u32 [%rd0], %r0;\nret;\n}\n";
}

TEST_F(LifetimeTest, LargeParametersArriveWhole) {
  for (const size_t bytes : {size_t{4000}, size_t{20000}}) {
    CUmodule module = nullptr;
    CUfunction total = nullptr;
    ASSERT_OK(cuModuleLoadData(&module, summing_kernel(bytes).c_str()));
    ASSERT_OK(cuModuleGetFunction(&total, module, "total"));
    std::vector<uint32_t> block(bytes / 4);
    uint32_t expected = 0;
    for (size_t i = 0; i < block.size(); ++i) {
      block[i] = static_cast<uint32_t>(i * 2654435761U);
      expected += block[i];
    }
    const Words out(1);
    CUdeviceptr address = out.at();
    void* params[] = {&address, block.data()};
    EXPECT_OK(cuLaunchKernel(total, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    EXPECT_EQ(out.read()[0], expected) << bytes;
    EXPECT_OK(cuModuleUnload(module));
  }
}

TEST_F(LifetimeTest, RandomHandlesHurtNobody) {
  std::mt19937_64 random(7);
  const Words words(4);
  unsigned number = 0;
  CUcontext context = nullptr;
  CUfunction function_out = nullptr;
  CUkernel kernel = nullptr;
  for (int i = 0; i < 2000; ++i) {
    // Any number, and numbers that look like handles.
    const uint64_t bits = i % 2 == 0 ? random() : (random() & 0x07ff'0000'00ff'ffffULL);
    const auto stream = reinterpret_cast<CUstream>(bits | 8);
    const auto event = reinterpret_cast<CUevent>(bits);
    EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuStreamGetFlags(stream, &number), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuStreamGetCtx(stream, &context), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuMemsetD32Async(words.at(), 0, 4, stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuEventRecord(event, nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuEventDestroy_v2(event), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuModuleUnload(reinterpret_cast<CUmodule>(bits)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuModuleGetFunction(&function_out, reinterpret_cast<CUmodule>(bits), "fill"),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuLibraryGetKernel(&kernel, reinterpret_cast<CUlibrary>(bits), "fill"),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuKernelGetFunction(&function_out, reinterpret_cast<CUkernel>(bits)),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuCtxSetCurrent(reinterpret_cast<CUcontext>(bits | 8)), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CU(cuMemFree_v2(bits | 1), CUDA_ERROR_INVALID_VALUE);
    if (HasFailure()) break;
  }
  EXPECT_EQ(launch("fill", nullptr, words.at(), 4, 3), CUDA_SUCCESS);
  EXPECT_EQ(words.read(), std::vector<uint32_t>(4, 3));
}

TEST_F(LifetimeTest, MemoryIsAccountedExactly) {
  size_t before = 0, after = 0;
  ASSERT_OK(cuCtxSynchronize());
  ASSERT_OK(cuMemGetInfo_v2(&before, nullptr));
  std::mt19937 random(3);
  std::vector<CUdeviceptr> held;
  for (int i = 0; i < 5000; ++i) {
    if (held.size() < 40 && random() % 3 != 0) {
      CUdeviceptr address = 0;
      // Every size class, and every eighth one more than there is.
      const size_t bytes = random() % 8 == 0 ? size_t{1} << 44 : size_t{1} << (random() % 22);
      const CUresult result = driver().cuMemAlloc_v2(&address, bytes);
      ASSERT_EQ(result, bytes > (size_t{1} << 40) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
      if (result == CUDA_SUCCESS) held.push_back(address);
    } else if (!held.empty()) {
      const size_t which = random() % held.size();
      ASSERT_OK(cuMemFree_v2(held[which]));
      EXPECT_CU(cuMemFree_v2(held[which]), CUDA_ERROR_INVALID_VALUE);  // no change
      held.erase(held.begin() + static_cast<ptrdiff_t>(which));
    }
  }
  for (const CUdeviceptr address : held) ASSERT_OK(cuMemFree_v2(address));
  ASSERT_OK(cuMemGetInfo_v2(&after, nullptr));
  EXPECT_EQ(after, before);
}

// Freed by the context whose work uses it, of which the primary context knows nothing.
TEST_F(LifetimeTest, PinnedMemoryStaysForTheWorkOfAnotherContext) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  CUcontext other = nullptr;
  CUmodule module = nullptr;
  CUfunction hold = nullptr, fill = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&other, 0, device_));
  ASSERT_OK(cuModuleLoadData(&module, kKernels));
  ASSERT_OK(cuModuleGetFunction(&hold, module, "gate"));
  ASSERT_OK(cuModuleGetFunction(&fill, module, "fill"));
  uint32_t* const memory = pinned(16);
  {
    const Stream stream;
    Gate gate(hold, stream);
    auto data = reinterpret_cast<CUdeviceptr>(memory);
    uint32_t n = 16, value = 5;
    void* params[] = {&data, &n, &value};
    EXPECT_OK(cuLaunchKernel(fill, 1, 1, 1, 16, 1, 1, 0, stream, params, nullptr));
    std::thread opener([&gate] {
      ::poll(nullptr, 0, 30);
      gate.open();
    });
    EXPECT_OK(cuMemFreeHost(memory));
    opener.join();
    EXPECT_OK(cuStreamSynchronize(stream));
  }
  EXPECT_OK(cuCtxDestroy_v2(other));
}

TEST_F(LifetimeTest, ThousandsOfHandlesAtOnce) {
  constexpr int kMany = 4000;
  std::vector<CUevent> events;
  std::vector<CUstream> streams;
  for (int i = 0; i < kMany; ++i) {
    CUevent event = nullptr;
    ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    events.push_back(event);
  }
  for (int i = 0; i < kMany / 4; ++i) {
    CUstream stream = nullptr;
    ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    streams.push_back(stream);
    EXPECT_OK(cuEventRecord(events[static_cast<size_t>(i)], stream));
  }
  EXPECT_OK(cuCtxSynchronize());
  for (const CUstream stream : streams) EXPECT_OK(cuStreamDestroy_v2(stream));
  for (const CUevent event : events) EXPECT_OK(cuEventDestroy_v2(event));
}

}  // namespace
}  // namespace vgpu::conformance
