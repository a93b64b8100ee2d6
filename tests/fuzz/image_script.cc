// Images from hostile hands.
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/image_script.h"

#include <elf.h>
#include <lz4.h>
#include <zstd.h>

#include <cstring>

#include "api/cudart/image.h"
#include "tests/fuzz/require.h"
#include "tests/support/image_builder.h"

namespace vgpu::cudart {
namespace {

constexpr uint64_t kLz4 = 0x2011, kZstd = 0x8011, kPlain = 0x11;
constexpr size_t kCompressedOffset = 16, kUncompressedOffset = 56;  // within an entry's header
constexpr size_t kContainerHeaderBytes = 16;
constexpr uint64_t kTextBytesAsked = 1 << 20;  // larger ones only take time

using testing::require;

// As a driver: the one text that is wanted.
void run_text(const std::vector<Image>& images) {
  const Image* best = best_ptx(images, 121);
  std::string text, why;
  if (best == nullptr || best->text_bytes > kTextBytesAsked) return;
  require(ptx_text(*best, &text, &why) || !why.empty());
}

// A program's own image: a wrapper of version 1, and one of version 2 whose list holds the same
// container twice. Nothing else than the container's bytes may be read.
void run_wrapped(const std::vector<uint8_t>& container) {
  const void* const list[] = {container.data(), container.data(), nullptr};
  for (const uint32_t version : {1u, 2u}) {
    const test::WrapperBytes wrapper = {0x466243B1, version, container.data(),
                                        version == 2 ? list : nullptr};
    std::vector<Image> images;
    std::string why, blob;
    const bool parsed = parse_images(&wrapper, &images, &why);
    require(parsed || !why.empty());
    run_text(images);
    why.clear();
    if (flatten_image(&wrapper, &blob, &why)) {
      require(check_image(blob.data(), blob.size(), &why));
      require(blob.size() <= 3 * container.size());
    } else {
      require(!why.empty());
    }
  }
}

bool is_container(const std::vector<uint8_t>& bytes) {
  static constexpr uint8_t kMagic[] = {0x50, 0xED, 0x55, 0xBA};
  return bytes.size() >= sizeof kMagic && std::memcmp(bytes.data(), kMagic, sizeof kMagic) == 0;
}

// One entry of PTX, compressed; `packed` are the compressed bytes.
std::string compressed(const std::string& packed, uint64_t flags, uint64_t text_bytes) {
  std::string bytes = test::ContainerBuilder().add(test::kPtxEntry, 75, flags, packed).build();
  const size_t entry = kContainerHeaderBytes;
  test::ContainerBuilder::put<uint32_t>(&bytes, entry + kCompressedOffset,
                                        static_cast<uint32_t>(packed.size()));
  test::ContainerBuilder::put<uint64_t>(&bytes, entry + kUncompressedOffset, text_bytes);
  return bytes;
}

std::string small_cubin() {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = sizeof header;
  header.e_shnum = 1;
  Elf64_Shdr section = {};
  section.sh_type = SHT_PROGBITS;
  section.sh_offset = sizeof header + sizeof section;
  section.sh_size = 8;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char*>(&section), sizeof section);
  return bytes + "machine!";
}

}  // namespace

bool run_image_script(std::span<const uint8_t> input) {
  const std::vector<uint8_t> bytes(input.begin(), input.end());  // exactly as long: reads past show
  std::vector<Image> images;
  std::string why;
  const bool whole = check_image(bytes.data(), bytes.size(), &why);
  require(whole || !why.empty());
  if (parse_images(bytes.data(), bytes.size(), &images, &why)) require(whole);
  const Image* best = best_ptx(images, 121);
  require(best == nullptr || best->kind == Image::Kind::kPtx);
  run_text(images);
  if (!whole) return false;
  // What was measured may be read without a length, as a driver does. Text needs its NUL for that.
  const std::string copy(bytes.begin(), bytes.end());
  std::string blob;
  require(flatten_image(copy.c_str(), &blob, &why));
  require(blob.size() <= bytes.size() + 1);
  if (is_container(bytes)) run_wrapped(bytes);
  return true;
}

std::vector<std::string> image_seeds() {
  std::string ptx = "\n.version 7.0\n.target sm_52\n.address_size 64\n";
  for (int i = 0; i < 8; ++i) ptx += ".visible .entry k" + std::to_string(i) + "()\n{\n  ret;\n}\n";
  const int text_bytes = static_cast<int>(ptx.size());
  std::string lz4(static_cast<size_t>(LZ4_compressBound(text_bytes)), '\0');
  lz4.resize(static_cast<size_t>(
      LZ4_compress_default(ptx.data(), lz4.data(), text_bytes, static_cast<int>(lz4.size()))));
  std::string zstd(ZSTD_compressBound(ptx.size()), '\0');
  zstd.resize(ZSTD_compress(zstd.data(), zstd.size(), ptx.data(), ptx.size(), 3));
  const std::string both = test::ContainerBuilder()
                               .add(test::kCubinEntry, 75, kPlain, small_cubin())
                               .add(test::kPtxEntry, 75, kPlain, ptx)
                               .build();
  return {ptx, small_cubin(), both, compressed(lz4, kLz4, ptx.size()),
          compressed(zstd, kZstd, ptx.size())};
}

}  // namespace vgpu::cudart
