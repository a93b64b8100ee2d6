// Damaged and hostile images: refused with a reason, never read past their end.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>

#include "api/cudart/image.h"
#include "tests/support/image_builder.h"

namespace vgpu::cudart {
namespace {

using test::ContainerBuilder;
using test::kCubinEntry;
using test::kPtxEntry;

// A heap block of exactly these bytes, so that the address sanitizer sees a read past them.
class Exact {
 public:
  explicit Exact(const std::string& bytes) : bytes_(new char[bytes.size()]), size_(bytes.size()) {
    std::memcpy(bytes_.get(), bytes.data(), size_);
  }
  bool parses() const {
    std::vector<Image> images;
    return parse_images(bytes_.get(), size_, &images, nullptr);
  }
  bool passes() const { return check_image(bytes_.get(), size_, nullptr); }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_;
};

std::string made(const std::string& name) {
  std::ifstream file(std::string(VGPU_TEST_IMAGES "/") + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Named {
  std::string name, bytes;
};

// Those that nvcc made, where there is one, and two that are made here.
std::vector<Named> images() {
  std::vector<Named> all;
  for (const char* name : {"speed.fatbin", "size.fatbin", "plain.fatbin", "kernel.cubin"}) {
    if (std::string bytes = made(name); !bytes.empty()) all.push_back({name, std::move(bytes)});
  }
  const std::string text(600, 'x');
  all.push_back({"text", ContainerBuilder().add(kPtxEntry, 75, 0, text).build()});
  all.push_back({"both", ContainerBuilder()
                             .add(kCubinEntry, 80, 0, "machine code")
                             .add(kPtxEntry, 80, 0, "// a text")
                             .build()});
  return all;
}

TEST(ImageDamage, EveryShorterContainerIsRefused) {
  const std::string image = ContainerBuilder()
                                .add(kPtxEntry, 75, 0, "// a text")
                                .add(kPtxEntry, 80, 0, "// another text")
                                .build();
  EXPECT_TRUE(Exact(image).passes());
  for (size_t size = 0; size < image.size(); ++size) {
    const Exact shorter(image.substr(0, size));
    EXPECT_FALSE(shorter.passes()) << size;
    EXPECT_FALSE(shorter.parses()) << size;
  }
}

TEST(ImageDamage, ShorterImagesAreRefused) {
  for (const auto& [name, image] : images()) {
    EXPECT_TRUE(Exact(image).passes()) << name;
    for (size_t size = 0; size < image.size(); size += size < 512 ? 1 : 97) {
      EXPECT_FALSE(Exact(image.substr(0, size)).passes()) << name << " " << size;
    }
  }
}

TEST(ImageDamage, ChangedBytesAreReadWithinBounds) {
  for (const auto& [name, image] : images()) {
    for (size_t at = 0; at < image.size(); at += at < 512 ? 1 : 41) {
      for (uint8_t bit : {0x01, 0x80, 0xff}) {
        std::string changed = image;
        changed[at] = static_cast<char>(changed[at] ^ bit);
        const Exact exact(changed);
        // A change may be harmless; what counts is that nothing is read past the end.
        const bool parses = exact.parses();
        EXPECT_TRUE(!parses || exact.passes()) << name << " " << at;
      }
    }
  }
}

TEST(ImageDamage, DamagedCompressedDataIsNamed) {
  for (const char* name : {"speed.fatbin", "size.fatbin"}) {
    std::string image = made(name);
    if (image.empty()) GTEST_SKIP() << "no nvcc with a choice";
    for (size_t i = image.size() - 200; i < image.size(); ++i) image[i] = '\x5a';
    std::vector<Image> images;
    std::string why;
    ASSERT_TRUE(parse_images(image.data(), image.size(), &images, &why)) << name;
    const Image* ptx = best_ptx(images, 999);
    ASSERT_NE(ptx, nullptr);
    std::string text;
    EXPECT_FALSE(ptx_text(*ptx, &text, &why)) << name;
    EXPECT_NE(why.find("damaged"), std::string::npos) << why;
  }
}

TEST(ImageDamage, AbsurdSizesAreRefused) {
  std::string image = ContainerBuilder().add(kPtxEntry, 75, 0x8000, "packed").build();
  ContainerBuilder::put<uint32_t>(&image, 16 + 16, 6);           // compressed size
  ContainerBuilder::put<uint64_t>(&image, 16 + 56, 1ull << 62);  // uncompressed size
  std::vector<Image> images;
  std::string text, why;
  ASSERT_TRUE(parse_images(image.data(), image.size(), &images, &why));
  EXPECT_FALSE(ptx_text(images[0], &text, &why));
  ContainerBuilder::put<uint32_t>(&image, 16 + 16, 60);  // more than there is
  EXPECT_FALSE(Exact(image).parses());
  ContainerBuilder::put<uint64_t>(&image, 8, ~0ull - 8);  // body: header + body overflows
  EXPECT_FALSE(Exact(image).passes());
}

TEST(ImageDamage, EntriesWithoutLengthEnd) {
  std::string image = ContainerBuilder().add(kPtxEntry, 75, 0, "").build();
  ContainerBuilder::put<uint32_t>(&image, 16 + 4, 0);  // header size 0 would never get on
  EXPECT_FALSE(Exact(image).passes());
}

TEST(ImageDamage, WhatIsNoImageIsRefused) {
  std::string why;
  std::vector<Image> images;
  EXPECT_FALSE(parse_images(nullptr, &images, &why));
  EXPECT_FALSE(check_image(nullptr, 0, &why));
  for (const std::string text : {"", "x", "\x7f",
                                 "\x7f"
                                 "E",
                                 "\x50\xed", "no image at all"}) {
    const std::unique_ptr<char[]> exact(new char[text.size() + 1]);
    std::memcpy(exact.get(), text.c_str(), text.size() + 1);
    std::string blob;
    EXPECT_FALSE(parse_images(exact.get(), &images, &why)) << text;
    EXPECT_FALSE(flatten_image(exact.get(), &blob, &why)) << text;
    EXPECT_FALSE(why.empty());
  }
}

}  // namespace
}  // namespace vgpu::cudart
