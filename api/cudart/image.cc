// Walks fatbin wrappers and containers.
// SPDX-License-Identifier: Apache-2.0
#include "api/cudart/image.h"

#include <elf.h>
#include <lz4.h>
#include <zstd.h>

#include <cstring>

namespace vgpu::cudart {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1;
constexpr uint32_t kContainerMagic = 0xBA55ED50;
constexpr uint64_t kFlagLz4 = 0x2000;
constexpr uint64_t kFlagZstd = 0x8000;
constexpr uint64_t kFlagArchSpecific = 0x100000;
constexpr uint64_t kFlagFamily = 0x200000;
constexpr uint16_t kKindPtx = 1;
constexpr uint16_t kKindCubin = 2;
constexpr size_t kUnknownSize = SIZE_MAX;

struct Wrapper {
  uint32_t magic, version;
  const void* container;
  const void* const* relocatable;  // version 2: containers, ended by nullptr
};

struct ContainerHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t body_bytes;
};

struct EntryHeader {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t payload_bytes;
  uint32_t compressed_bytes, options_offset;
  uint16_t minor, major;
  uint32_t arch, name_offset, name_bytes;
  uint64_t flags, reserved, uncompressed_bytes;
};
static_assert(sizeof(ContainerHeader) == 16 && sizeof(EntryHeader) == 64);

bool fail(std::string* why, const char* text) {
  if (why != nullptr) *why = text;
  return false;
}

template <typename T>
T load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// A packed text of `bytes` into *out.
bool unpack(std::span<const uint8_t> code, uint64_t flags, uint64_t bytes, std::string* out,
            std::string* why) {
  if (bytes > kTextBytesMax) return fail(why, "a text claims to be larger than any is");
  out->resize(bytes);
  if ((flags & kFlagZstd) != 0) {
    const size_t n = ZSTD_decompress(out->data(), out->size(), code.data(), code.size());
    return (!ZSTD_isError(n) && n == bytes) || fail(why, "zstd data is damaged");
  }
  const int n = LZ4_decompress_safe(reinterpret_cast<const char*>(code.data()), out->data(),
                                    static_cast<int>(code.size()), static_cast<int>(bytes));
  return n == static_cast<int>(bytes) || fail(why, "LZ4 data is damaged");
}

void trim_text(std::string* text) {
  text->resize(std::strlen(text->c_str()));  // PTX may be padded with NULs
}

bool read_entry(const EntryHeader& entry, const uint8_t* payload, std::vector<Image>* images,
                std::string* why) {
  Image image;
  image.arch = entry.arch;
  image.flags = entry.flags;
  image.kind = entry.kind == kKindPtx     ? Image::Kind::kPtx
               : entry.kind == kKindCubin ? Image::Kind::kCubin
                                          : Image::Kind::kOther;
  image.code = {payload, entry.payload_bytes};
  if (entry.compressed_bytes != 0 && (entry.flags & (kFlagLz4 | kFlagZstd)) != 0) {
    if (entry.compressed_bytes > entry.payload_bytes || entry.uncompressed_bytes == 0) {
      return fail(why, "an entry's sizes contradict each other");
    }
    image.code = image.code.first(entry.compressed_bytes);
    image.text_bytes = entry.uncompressed_bytes;
  }
  images->push_back(std::move(image));
  return true;
}

// Bytes of a container, or 0 when it is none.
size_t container_bytes(const uint8_t* at, size_t limit, std::string* why) {
  if (limit < sizeof(ContainerHeader)) return fail(why, "too short for a container");
  const auto header = load<ContainerHeader>(at);
  if (header.magic != kContainerMagic || header.header_bytes < sizeof header)
    return fail(why, "no container");
  if (header.body_bytes > kImageBytesMax ||
      (limit != kUnknownSize && header.header_bytes + header.body_bytes > limit)) {
    return fail(why, "the container claims more bytes than there are");
  }
  return header.header_bytes + header.body_bytes;
}

// Calls visit(header, entry) for each entry until one returns false.
template <typename Visit>
bool walk_container(const uint8_t* at, size_t limit, std::string* why, Visit visit) {
  const size_t total = container_bytes(at, limit, why);
  if (total == 0) return false;
  size_t offset = load<ContainerHeader>(at).header_bytes;
  for (uint32_t count = 0; offset < total; ++count) {
    if (count >= kImageEntriesMax) return fail(why, "too many entries");
    if (total - offset < sizeof(EntryHeader)) return fail(why, "an entry is cut off");
    const auto entry = load<EntryHeader>(at + offset);
    if (entry.header_bytes < sizeof entry || entry.header_bytes > total - offset ||
        entry.payload_bytes > total - offset - entry.header_bytes) {
      return fail(why, "an entry reaches past its container");
    }
    if (!visit(entry, at + offset)) return false;
    offset += entry.header_bytes + entry.payload_bytes;
  }
  return true;
}

bool read_container(const uint8_t* at, size_t limit, std::vector<Image>* images, std::string* why) {
  return walk_container(at, limit, why, [&](const EntryHeader& entry, const uint8_t* start) {
    return read_entry(entry, start + entry.header_bytes, images, why);
  });
}

// A cubin has no length of its own: it ends where its last section, segment or header table ends.
size_t elf_bytes(const uint8_t* at, size_t limit, std::string* why) {
  if (limit < sizeof(Elf64_Ehdr)) return fail(why, "too short for a cubin");
  const auto header = load<Elf64_Ehdr>(at);
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return fail(why, "not a 64-bit cubin");
  uint64_t end = sizeof header;
  auto reach = [&](uint64_t offset, uint64_t bytes) {
    if (offset > kImageBytesMax || bytes > kImageBytesMax) return false;
    if (offset + bytes > end) end = offset + bytes;
    return limit == kUnknownSize || end <= limit;
  };
  if (!reach(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr)) ||
      !reach(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr))) {
    return fail(why, "a header table lies outside the cubin");
  }
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = load<Elf64_Shdr>(at + header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_NOBITS && !reach(section.sh_offset, section.sh_size)) {
      return fail(why, "a section lies outside the cubin");
    }
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = load<Elf64_Phdr>(at + header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!reach(segment.p_offset, segment.p_filesz))
      return fail(why, "a segment lies outside the cubin");
  }
  return end;
}

// Whether `magic` stands at `at`: byte by byte, because a text may end before its fourth.
bool starts_with(const uint8_t* at, size_t limit, uint32_t magic) {
  for (size_t i = 0; i < sizeof magic; ++i) {
    if (i >= limit || at[i] != static_cast<uint8_t>(magic >> (8 * i))) return false;
  }
  return true;
}

constexpr uint32_t kElfMagic = 0x464c457f;

bool is_elf(const uint8_t* at, size_t limit) { return starts_with(at, limit, kElfMagic); }

bool looks_like_text(const uint8_t* at, size_t limit) {
  return limit > 0 && (at[0] == '/' || at[0] == '.' || at[0] == '\n' || at[0] == '\r' ||
                       at[0] == ' ' || at[0] == '\t');
}

bool read_bare(const uint8_t* at, size_t limit, std::vector<Image>* images, std::string* why) {
  if (is_elf(at, limit)) {
    const size_t bytes = elf_bytes(at, limit, why);
    if (bytes == 0) return false;
    images->push_back(
        {Image::Kind::kCubin, 0, 0, std::string(reinterpret_cast<const char*>(at), bytes), {}, 0});
    return true;
  }
  if (!looks_like_text(at, limit)) return fail(why, "neither a fatbin, a cubin nor PTX");
  const char* text = reinterpret_cast<const char*>(at);
  const size_t bytes = limit == kUnknownSize ? std::strlen(text) : strnlen(text, limit);
  images->push_back({Image::Kind::kPtx, 0, 0, std::string(text, bytes), {}, 0});
  return true;
}

// Calls visit(container) for each relocatable container of a wrapper (-rdc=true keeps its PTX
// there).
template <typename Visit>
bool each_relocatable(const Wrapper& wrapper, Visit visit) {
  if (wrapper.version < 2 || wrapper.relocatable == nullptr) return true;
  for (const void* const* piece = wrapper.relocatable; *piece != nullptr; ++piece) {
    if (!visit(static_cast<const uint8_t*>(*piece))) return false;
  }
  return true;
}

// Appends the PTX entries of `container` to `blob`, which ends in a container's body.
bool append_ptx(const uint8_t* container, std::string* blob, std::string* why) {
  return walk_container(container, kUnknownSize, why, [&](const EntryHeader& entry, auto* start) {
    if (entry.kind != kKindPtx) return true;
    blob->append(reinterpret_cast<const char*>(start), entry.header_bytes + entry.payload_bytes);
    return blob->size() <= kImageBytesMax || fail(why, "the image is too large");
  });
}

// The PTX of a wrapper's relocatable list stands apart, and is put behind the container in `blob`.
bool view_wrapper(const Wrapper& wrapper, std::string* blob, std::string_view* bytes,
                  std::string* why) {
  if (wrapper.container == nullptr) return fail(why, "the wrapper is empty");
  const size_t size =
      container_bytes(static_cast<const uint8_t*>(wrapper.container), kUnknownSize, why);
  if (size == 0) return false;
  *bytes = {static_cast<const char*>(wrapper.container), size};
  if (wrapper.version < 2 || wrapper.relocatable == nullptr || *wrapper.relocatable == nullptr)
    return true;
  blob->assign(*bytes);
  if (!each_relocatable(wrapper, [&](auto* piece) { return append_ptx(piece, blob, why); })) {
    return false;
  }
  auto header = load<ContainerHeader>(blob->data());
  header.body_bytes = blob->size() - header.header_bytes;
  std::memcpy(blob->data(), &header, sizeof header);
  *bytes = *blob;
  return true;
}

bool runs_on(const Image& image, uint32_t capability) {
  if ((image.flags & kFlagArchSpecific) != 0) return image.arch == capability;
  if (image.arch > capability) return false;
  return (image.flags & kFlagFamily) == 0 || image.arch / 10 == capability / 10;
}

}  // namespace

bool parse_images(const void* image, std::vector<Image>* images, std::string* why) {
  const auto* at = static_cast<const uint8_t*>(image);
  if (image == nullptr) return fail(why, "no image");
  if (starts_with(at, kUnknownSize, kContainerMagic)) {
    return read_container(at, kUnknownSize, images, why);
  }
  if (!starts_with(at, kUnknownSize, kWrapperMagic)) {
    return read_bare(at, kUnknownSize, images, why);
  }
  const auto wrapper = load<Wrapper>(at);
  if (wrapper.container == nullptr) return fail(why, "the wrapper is empty");
  const auto read = [&](const uint8_t* piece) {
    return read_container(piece, kUnknownSize, images, why);
  };
  return read(static_cast<const uint8_t*>(wrapper.container)) && each_relocatable(wrapper, read);
}

bool parse_images(const void* image, size_t size, std::vector<Image>* images, std::string* why) {
  if (image == nullptr) return fail(why, "no image");
  const auto* at = static_cast<const uint8_t*>(image);
  if (starts_with(at, size, kContainerMagic)) return read_container(at, size, images, why);
  return read_bare(at, size, images, why);
}

bool check_image(const void* image, size_t size, std::string* why) {
  if (image == nullptr) return fail(why, "no image");
  const auto* at = static_cast<const uint8_t*>(image);
  if (starts_with(at, size, kContainerMagic)) {
    return walk_container(at, size, why, [](const EntryHeader&, const uint8_t*) { return true; });
  }
  if (is_elf(at, size)) return elf_bytes(at, size, why) != 0;
  return looks_like_text(at, size) || fail(why, "neither a container, a cubin nor PTX");
}

namespace {

bool view(const void* image, std::string* blob, std::string_view* bytes, std::string* why) {
  if (image == nullptr) return fail(why, "no image");
  const auto* at = static_cast<const uint8_t*>(image);
  const auto* text = static_cast<const char*>(image);
  if (starts_with(at, kUnknownSize, kWrapperMagic))
    return view_wrapper(load<Wrapper>(at), blob, bytes, why);
  if (looks_like_text(at, kUnknownSize)) {
    *bytes = {text, std::strlen(text) + 1};
    return true;
  }
  size_t size = 0;
  if (is_elf(at, kUnknownSize)) {
    size = elf_bytes(at, kUnknownSize, why);
  } else if (starts_with(at, kUnknownSize, kContainerMagic)) {
    size = container_bytes(at, kUnknownSize, why);
  } else {
    return fail(why, "neither a fatbin, a cubin nor PTX");
  }
  *bytes = {text, size};
  return size != 0;
}

}  // namespace

bool view_image(const void* image, std::string* blob, std::string_view* bytes, std::string* why) {
  return view(image, blob, bytes, why) && check_image(bytes->data(), bytes->size(), why);
}

bool flatten_image(const void* image, std::string* blob, std::string* why) {
  std::string_view bytes;
  if (!view_image(image, blob, &bytes, why)) return false;
  if (bytes.data() != blob->data()) blob->assign(bytes);
  return true;
}

bool ptx_text(const Image& image, std::string* text, std::string* why) {
  if (image.kind != Image::Kind::kPtx) return fail(why, "not PTX");
  if (image.code.empty()) {
    *text = image.bytes;
    return true;
  }
  if (image.text_bytes == 0) {
    text->assign(reinterpret_cast<const char*>(image.code.data()), image.code.size());
  } else if (!unpack(image.code, image.flags, image.text_bytes, text, why)) {
    return false;
  }
  trim_text(text);
  return true;
}

bool unpacked_code(const Image& image, std::string* room, std::string_view* code) {
  *code = image.bytes;
  if (image.code.empty()) return true;
  *code = {reinterpret_cast<const char*>(image.code.data()), image.code.size()};
  if (image.text_bytes == 0) return true;
  if (!unpack(image.code, image.flags, image.text_bytes, room, nullptr)) return false;
  *code = *room;
  return true;
}

bool mentions(const Image& image, std::string_view word) {
  std::string room;
  std::string_view code;
  return image.text_bytes > kSearchBytesMax || !unpacked_code(image, &room, &code) ||
         code.size() > kSearchBytesMax ||
         memmem(code.data(), code.size(), word.data(), word.size()) != nullptr;
}

bool is_bound(const Image& image) { return (image.flags & (kFlagArchSpecific | kFlagFamily)) != 0; }

const Image* best_ptx(const std::vector<Image>& images, uint32_t capability, bool general) {
  const Image* best = nullptr;
  for (const Image& image : images) {
    if (image.kind != Image::Kind::kPtx || !runs_on(image, capability)) continue;
    if (general && is_bound(image)) continue;
    if (best == nullptr || image.arch > best->arch) best = &image;
  }
  return best;
}

}  // namespace vgpu::cudart
