// Images that are no PTX text: fat binaries as nvcc lays them out, compressed code, machine code.
// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <lz4.h>
#include <zstd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "fixture.h"
#include "kernel_text.h"
#include "tests/support/image_builder.h"

namespace vgpu::conformance {
namespace {

using cudart::test::ContainerBuilder;
using cudart::test::kCubinEntry;
using cudart::test::kPtxEntry;
using cudart::test::WrapperBytes;
using ::testing::AnyOf;

constexpr uint64_t kPlain = 0x11, kLz4 = 0x2011, kZstd = 0x8011;  // 64 bits, Linux, packed how
constexpr uint64_t kOneArchitecture = 0x100000;                   // sm_90a and its like
constexpr uint32_t kOld = 52, kVolta = 70, kFuture = 999;

// Machine code of a kernel that nobody runs: a whole ELF file without sections that mean anything.
std::string cubin() {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_machine = EM_CUDA;
  header.e_ehsize = sizeof header;
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + std::string(64, '\0');
}

std::string container(const std::string& ptx) {
  return ContainerBuilder().add(kPtxEntry, kVolta, kPlain, ptx).build();
}

std::string packed_container(const std::string& packed, uint64_t flags, uint64_t text_bytes) {
  std::string bytes = ContainerBuilder().add(kPtxEntry, kVolta, flags, packed).build();
  ContainerBuilder::put<uint32_t>(&bytes, 16 + 16, static_cast<uint32_t>(packed.size()));
  ContainerBuilder::put<uint64_t>(&bytes, 16 + 56, text_bytes);
  return bytes;
}

std::string lz4_container(const std::string& ptx) {
  const int bytes = static_cast<int>(ptx.size());
  std::string packed(static_cast<size_t>(LZ4_compressBound(bytes)), '\0');
  packed.resize(static_cast<size_t>(
      LZ4_compress_default(ptx.data(), packed.data(), bytes, static_cast<int>(packed.size()))));
  return packed_container(packed, kLz4, ptx.size());
}

std::string zstd_container(const std::string& ptx) {
  std::string packed(ZSTD_compressBound(ptx.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), ptx.data(), ptx.size(), 3));
  return packed_container(packed, kZstd, ptx.size());
}

class ImageTest : public ContextTest {
 protected:
  // What the module's kernel fill makes of value 1; 0 when it cannot be run.
  uint32_t filled_by(CUfunction fill) {
    const Words words(32);
    CUdeviceptr data = words.at();
    uint32_t n = 32, value = 1;
    void* params[] = {&data, &n, &value};
    EXPECT_OK(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
    const std::vector<uint32_t> all = words.read();
    EXPECT_EQ(all, std::vector<uint32_t>(32, all[0]));
    return all[0];
  }

  uint32_t filled_by_module(CUmodule module) {
    CUfunction fill = nullptr;
    EXPECT_OK(cuModuleGetFunction(&fill, module, "fill"));
    const uint32_t value = fill == nullptr ? 0 : filled_by(fill);
    EXPECT_OK(cuModuleUnload(module));
    return value;
  }

  uint32_t filled_by_library(CUlibrary library) {
    CUkernel kernel = nullptr;
    EXPECT_OK(cuLibraryGetKernel(&kernel, library, "fill"));
    const uint32_t value = kernel == nullptr ? 0 : filled_by(reinterpret_cast<CUfunction>(kernel));
    EXPECT_OK(cuLibraryUnload(library));
    return value;
  }

  // The image through every call that takes one from memory.
  void expect_fill(const void* image, uint32_t expected) {
    CUmodule module = nullptr;
    ASSERT_OK(cuModuleLoadData(&module, image));
    EXPECT_EQ(filled_by_module(module), expected);
    ASSERT_OK(cuModuleLoadDataEx(&module, image, 0, nullptr, nullptr));
    EXPECT_EQ(filled_by_module(module), expected);
    ASSERT_OK(cuModuleLoadFatBinary(&module, image));
    EXPECT_EQ(filled_by_module(module), expected);
    CUlibrary library = nullptr;
    ASSERT_OK(cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
    EXPECT_EQ(filled_by_library(library), expected);
  }

  void expect_refused(const void* image, CUresult expected) {
    CUmodule module = nullptr;
    EXPECT_CU(cuModuleLoadData(&module, image), expected);
    EXPECT_CU(cuModuleLoadFatBinary(&module, image), expected);
  }
};

TEST_F(ImageTest, Container) { expect_fill(container(fill_module(10)).data(), 11); }
TEST_F(ImageTest, Lz4) { expect_fill(lz4_container(fill_module(20)).data(), 21); }
TEST_F(ImageTest, Zstd) { expect_fill(zstd_container(fill_module(30)).data(), 31); }

TEST_F(ImageTest, WrapperOfVersion1) {
  const std::string inner = zstd_container(fill_module(40));
  WrapperBytes wrapper;
  wrapper.container = inner.data();
  expect_fill(&wrapper, 41);
}

// As -rdc=true leaves it: linked machine code, and the PTX in a list of containers.
TEST_F(ImageTest, WrapperOfVersion2) {
  const std::string linked = ContainerBuilder().add(kCubinEntry, kOld, kPlain, cubin()).build();
  const std::string relocatable = lz4_container(fill_module(50));
  const void* const list[] = {relocatable.data(), nullptr};
  WrapperBytes wrapper;
  wrapper.version = 2;
  wrapper.container = linked.data();
  wrapper.relocatable = list;
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, &wrapper));
  EXPECT_EQ(filled_by_module(module), 51U);
}

TEST_F(ImageTest, TheNewestCodeThatRuns) {
  const std::string image = ContainerBuilder()
                                .add(kCubinEntry, kOld, kPlain, cubin())
                                .add(kPtxEntry, kOld, kPlain, fill_module(60))
                                .add(kPtxEntry, kVolta, kPlain, fill_module(70))
                                .add(kPtxEntry, kFuture, kPlain, fill_module(80))
                                .build();
  expect_fill(image.data(), 71);
}

// Code for this very architecture goes before what is for all, unless it uses what is not there.
TEST_F(ImageTest, CodeForOneArchitecture) {
  if (std::string_view(std::getenv("VGPU_TEST_BACKEND")) == "cuda")
    GTEST_SKIP() << "hardware has what its own architecture has";
  int major = 0, minor = 0;
  ASSERT_OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_));
  ASSERT_OK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device_));
  const auto ours = static_cast<uint32_t>(10 * major + minor);
  const auto pair = [&](const std::string& bound) {
    return ContainerBuilder()
        .add(kPtxEntry, kVolta, kPlain, fill_module(40))
        .add(kPtxEntry, ours, kPlain | kOneArchitecture, bound)
        .build();
  };
  expect_fill(pair(fill_module(50)).data(), 51);
  std::string strange = fill_module(60);
  strange.insert(strange.rfind("ret;"), "wgmma.fence.sync.aligned;\n");
  expect_fill(pair(strange).data(), 41);
  const std::string alone =
      ContainerBuilder().add(kPtxEntry, ours, kPlain | kOneArchitecture, strange).build();
  expect_refused(alone.data(), CUDA_ERROR_INVALID_PTX);
}

// As libraries are: most of it is code for other devices.
TEST_F(ImageTest, MoreThanAHundredMegabytes) {
  const std::string image =
      ContainerBuilder()
          .add(kCubinEntry, kOld, kPlain, cubin() + std::string(110u << 20, 'x'))
          .add(kPtxEntry, kVolta, kPlain, fill_module(5))
          .build();
  CUlibrary library = nullptr;
  ASSERT_OK(cuLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  EXPECT_OK(cuLibraryUnload(library));
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, image.data()));
  EXPECT_EQ(filled_by_module(module), 6U);
}

TEST_F(ImageTest, NothingForThisDevice) {
  const std::string machine = ContainerBuilder().add(kCubinEntry, kOld, kPlain, cubin()).build();
  expect_refused(machine.data(), CUDA_ERROR_NO_BINARY_FOR_GPU);
  WrapperBytes wrapper;
  wrapper.container = machine.data();
  expect_refused(&wrapper, CUDA_ERROR_NO_BINARY_FOR_GPU);
  const std::string future =
      ContainerBuilder().add(kPtxEntry, kFuture, kPlain, fill_module(0)).build();
  expect_refused(future.data(), CUDA_ERROR_NO_BINARY_FOR_GPU);
  const std::string bare = cubin();
  CUmodule module = nullptr;
  EXPECT_THAT(driver().cuModuleLoadData(&module, bare.data()),
              AnyOf(CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_INVALID_IMAGE));
}

TEST_F(ImageTest, DamagedCode) {
  for (const bool zstd : {false, true}) {
    std::string image = zstd ? zstd_container(fill_module(0)) : lz4_container(fill_module(0));
    for (size_t i = 16 + 64; i < 16 + 64 + 24; ++i) image[i] = static_cast<char>(~image[i]);
    CUmodule module = nullptr;
    EXPECT_THAT(driver().cuModuleLoadData(&module, image.data()),
                AnyOf(CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_PTX));
  }
}

TEST_F(ImageTest, FromFiles) {
  const std::string path = temporary_path("image.fatbin");
  const std::string image = zstd_container(fill_module(90));
  std::ofstream(path, std::ios::binary) << image;
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoad(&module, path.c_str()));
  EXPECT_EQ(filled_by_module(module), 91U);
  CUlibrary library = nullptr;
  ASSERT_OK(
      cuLibraryLoadFromFile(&library, path.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  EXPECT_EQ(filled_by_library(library), 91U);
  std::ofstream(path, std::ios::binary) << image.substr(0, image.size() / 2);
  EXPECT_CU(cuModuleLoad(&module, path.c_str()), CUDA_ERROR_INVALID_IMAGE);  // cut off
  std::ofstream(path, std::ios::binary) << fill_module(100);
  ASSERT_OK(
      cuLibraryLoadFromFile(&library, path.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  EXPECT_EQ(filled_by_library(library), 101U);
  std::remove(path.c_str());
}

TEST_F(ImageTest, BadArguments) {
  CUmodule module = nullptr;
  const std::string image = container(fill_module(0));
  EXPECT_CU(cuModuleLoadFatBinary(nullptr, image.data()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuModuleLoadFatBinary(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
  WrapperBytes empty;
  EXPECT_THAT(driver().cuModuleLoadFatBinary(&module, &empty),
              AnyOf(CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_VALUE));
}

}  // namespace
}  // namespace vgpu::conformance
