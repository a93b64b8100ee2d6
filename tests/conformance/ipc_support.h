// Handing handles to another process of the tests, and waiting for what it does.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_CONFORMANCE_IPC_SUPPORT_H_
#define VGPU_TESTS_CONFORMANCE_IPC_SUPPORT_H_

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>

#include "fixture.h"

namespace vgpu::conformance {

inline constexpr unsigned kLazy = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
inline constexpr auto kPatience = std::chrono::seconds(30);

// Handles for the child, in its environment.
template <typename Handle>
void hand_over(const char* name, const Handle& handle) {
  std::string text;
  for (const auto c : handle.reserved) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  ::setenv(name, text.c_str(), 1);
}

template <typename Handle = CUipcMemHandle>
Handle handed_over(const char* name) {
  Handle handle = {};
  const char* text = std::getenv(name);
  if (text == nullptr || std::strlen(text) != 2 * sizeof(handle.reserved)) {
    ADD_FAILURE() << "no handle in " << name;
    return handle;
  }
  for (auto& c : handle.reserved) {
    const std::string byte(text, 2);
    c = static_cast<std::remove_reference_t<decltype(c)>>(std::stoi(byte, nullptr, 16));
    text += 2;
  }
  return handle;
}

class IpcTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (HasFatalFailure()) return;
    const Words words(1);
    CUipcMemHandle handle = {};
    served_ = driver().cuIpcGetMemHandle(&handle, words.at()) == CUDA_SUCCESS;
    if (served_) return;
    EXPECT_CU(cuIpcGetMemHandle(&handle, words.at()), CUDA_ERROR_NOT_SUPPORTED);
    GTEST_SKIP() << "no memory is shared here";
  }
  static CUipcMemHandle handle_of(CUdeviceptr address) {
    CUipcMemHandle handle = {};
    EXPECT_OK(cuIpcGetMemHandle(&handle, address));
    return handle;
  }
  static CUdeviceptr open(const CUipcMemHandle& handle) {
    CUdeviceptr address = 0;
    EXPECT_OK(cuIpcOpenMemHandle_v2(&address, handle, kLazy));
    return address;
  }
  static uint32_t word_at(CUdeviceptr address) {
    uint32_t word = 0;
    EXPECT_OK(cuMemcpyDtoH_v2(&word, address, 4));
    return word;
  }
  // Until the other process has written it.
  static void await(CUdeviceptr address, uint32_t value) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    uint32_t word = value + 1;
    while (driver().cuMemcpyDtoH_v2(&word, address, 4) == CUDA_SUCCESS && word != value &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    EXPECT_EQ(word, value);
  }
  // Over loop every process has a server of its own.
  static bool alone() { return std::string_view(std::getenv("VGPU_TEST_BACKEND")) == "loop"; }
  bool served_ = false;
};

}  // namespace vgpu::conformance

#endif  // VGPU_TESTS_CONFORMANCE_IPC_SUPPORT_H_
