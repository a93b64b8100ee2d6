// Images as nvcc makes them in every compression, and the choice among them.
// SPDX-License-Identifier: Apache-2.0
#include "api/cudart/image.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/support/image_builder.h"

namespace vgpu::cudart {
namespace {

using test::ContainerBuilder;
using test::kCubinEntry;
using test::kPtxEntry;
using test::WrapperBytes;

constexpr uint64_t kArchSpecific = 0x100000;
constexpr uint64_t kFamily = 0x200000;

// Empty when the build had no nvcc (or one without that compression).
std::string made(const std::string& name) {
  std::ifstream file(std::string(VGPU_TEST_IMAGES "/") + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string text_of(const Image& image) {
  std::string text, why;
  EXPECT_TRUE(ptx_text(image, &text, &why)) << why;
  return text;
}

class Compression : public testing::TestWithParam<const char*> {};

TEST_P(Compression, GivesThePtxThatWasPutIn) {
  const std::string image = made(GetParam());
  const std::string plain = made("plain.fatbin");
  if (image.empty() || plain.empty()) GTEST_SKIP() << "no nvcc that makes it";
  std::vector<Image> images, expected;
  std::string why;
  ASSERT_TRUE(parse_images(image.data(), &images, &why)) << why;
  ASSERT_TRUE(parse_images(plain.data(), plain.size(), &expected, &why)) << why;
  const Image* ptx = best_ptx(images, 80);
  ASSERT_NE(ptx, nullptr);
  EXPECT_EQ(ptx->arch, 80u);
  EXPECT_NE(text_of(*ptx).find(".entry image_test_kernel("), std::string::npos);
  ASSERT_NE(best_ptx(expected, 80), nullptr);
  EXPECT_EQ(text_of(*ptx), text_of(*best_ptx(expected, 80)));
  EXPECT_EQ(best_ptx(images, 75), nullptr) << "made for a newer device";
}

TEST_P(Compression, TravelsWhole) {
  const std::string image = made(GetParam());
  if (image.empty()) GTEST_SKIP() << "no nvcc that makes it";
  std::string blob, why;
  ASSERT_TRUE(flatten_image(image.data(), &blob, &why)) << why;
  EXPECT_EQ(blob, image);
  EXPECT_TRUE(check_image(blob.data(), blob.size(), &why)) << why;
}

INSTANTIATE_TEST_SUITE_P(Image, Compression,
                         testing::Values("plain.fatbin", "default.fatbin", "speed.fatbin",
                                         "balance.fatbin", "size.fatbin", "none.fatbin"));

TEST(Image, CompressionsDiffer) {
  if (made("speed.fatbin").empty()) GTEST_SKIP() << "no nvcc with a choice";
  EXPECT_LT(made("speed.fatbin").size(), made("plain.fatbin").size());
  EXPECT_LT(made("size.fatbin").size(), made("plain.fatbin").size());
}

TEST(Image, MachineCodeAloneHasNoPtx) {
  const std::string image = made("sass_only.fatbin");
  if (image.empty()) GTEST_SKIP() << "no nvcc";
  std::vector<Image> images;
  std::string why;
  ASSERT_TRUE(parse_images(image.data(), &images, &why)) << why;
  ASSERT_EQ(images.size(), 1u);
  EXPECT_EQ(images[0].kind, Image::Kind::kCubin);
  EXPECT_EQ(best_ptx(images, 999), nullptr);
}

TEST(Image, CubinIsAsLongAsItsFile) {
  std::string cubin = made("kernel.cubin");
  if (cubin.empty()) GTEST_SKIP() << "no nvcc";
  const size_t bytes = cubin.size();
  cubin += std::string(64, 'x');  // what lies behind it in the program is not its own
  std::string blob, why;
  ASSERT_TRUE(flatten_image(cubin.data(), &blob, &why)) << why;
  EXPECT_EQ(blob.size(), bytes);
  EXPECT_TRUE(check_image(blob.data(), blob.size(), &why));
  EXPECT_FALSE(check_image(blob.data(), blob.size() - 1, &why));
}

TEST(Image, PtxTextTravelsWithItsEnd) {
  const std::string text = "//\n.version 8.0\n.target sm_75\n";
  std::string blob, why;
  ASSERT_TRUE(flatten_image(text.c_str(), &blob, &why));
  EXPECT_EQ(blob, text + '\0');
  std::vector<Image> images;
  ASSERT_TRUE(parse_images(blob.data(), blob.size(), &images, &why));
  ASSERT_EQ(images.size(), 1u);
  EXPECT_EQ(text_of(images[0]), text);
  EXPECT_EQ(best_ptx(images, 75), &images[0]);
}

TEST(Image, NewestPtxThatRunsIsTaken) {
  const std::string image = ContainerBuilder()
                                .add(kPtxEntry, 75, 0, "//75")
                                .add(kPtxEntry, 120, kFamily, "//120f")
                                .add(kPtxEntry, 90, 0, "//90")
                                .add(kPtxEntry, 100, kArchSpecific, "//100a")
                                .add(kCubinEntry, 110, 0, "sass")
                                .build();
  std::vector<Image> images;
  std::string why;
  ASSERT_TRUE(parse_images(image.data(), &images, &why)) << why;
  const auto best = [&](uint32_t capability) {
    const Image* found = best_ptx(images, capability);
    return found == nullptr ? "" : text_of(*found);
  };
  EXPECT_EQ(best(70), "");
  EXPECT_EQ(best(75), "//75");
  EXPECT_EQ(best(89), "//75");
  EXPECT_EQ(best(100), "//100a");
  EXPECT_EQ(best(103), "//90") << "code for sm_100a runs on sm_100 only";
  EXPECT_EQ(best(121), "//120f");
  EXPECT_EQ(best(130), "//90") << "another family";
  for (const uint32_t capability : {100U, 121U})
    EXPECT_EQ(text_of(*best_ptx(images, capability, true)), "//90");
  EXPECT_EQ(best_ptx(images, 70, true), nullptr);
}

TEST(Image, WrapperLeadsToItsContainer) {
  const std::string container = ContainerBuilder().add(kPtxEntry, 75, 0, "//75").build();
  WrapperBytes wrapper;
  wrapper.container = container.data();
  std::string blob, why;
  ASSERT_TRUE(flatten_image(&wrapper, &blob, &why)) << why;
  EXPECT_EQ(blob, container);
  EXPECT_FALSE(check_image(&wrapper, sizeof wrapper, &why)) << "it is made of addresses";
  std::vector<Image> images;
  EXPECT_FALSE(parse_images(&wrapper, sizeof wrapper, &images, &why));
}

TEST(Image, SeparatelyCompiledPtxTravelsAlong) {
  const std::string linked = ContainerBuilder().add(kCubinEntry, 80, 0, "linked").build();
  const std::string piece = ContainerBuilder()
                                .add(kCubinEntry, 80, 0, "relocatable")
                                .add(kPtxEntry, 80, 0, "//80")
                                .build();
  const void* const pieces[] = {piece.data(), nullptr};
  WrapperBytes wrapper;
  wrapper.version = 2;
  wrapper.container = linked.data();
  wrapper.relocatable = pieces;
  std::string blob, why;
  ASSERT_TRUE(flatten_image(&wrapper, &blob, &why)) << why;
  std::vector<Image> images;
  ASSERT_TRUE(parse_images(blob.data(), blob.size(), &images, &why)) << why;
  ASSERT_EQ(images.size(), 2u) << "the linked code and the PTX, not the relocatable code";
  EXPECT_EQ(text_of(images[1]), "//80");
  images.clear();
  ASSERT_TRUE(parse_images(&wrapper, &images, &why)) << why;
  EXPECT_EQ(images.size(), 3u);
}

}  // namespace
}  // namespace vgpu::cudart
