// What a program hands to cuModuleLoadData or cuLibraryLoadData: fatbin wrapper, container, cubin
// or PTX text. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vgpu::cudart {

// One image out of a container, which must live as long: its code stays packed where it is.
struct Image {
  enum class Kind { kPtx, kCubin, kOther };
  Kind kind = Kind::kOther;
  uint32_t arch = 0;  // 75, 90, 121 …; 0 when the container does not say (bare PTX, bare cubin)
  uint64_t flags = 0;
  std::string bytes;              // bare PTX: the text without its NUL; bare cubin: the cubin
  std::span<const uint8_t> code;  // in a container: the entry's bytes, as they lie there
  uint64_t text_bytes = 0;        // of the PTX once unpacked, as the entry says; 0 = not packed
};

// Upper bounds on what one image may claim; beyond them an image is refused as damaged.
inline constexpr uint64_t kImageBytesMax = 2ull << 30;
inline constexpr uint64_t kTextBytesMax = 256ull << 20;  // one text: the largest known have 1 MB
inline constexpr uint32_t kImageEntriesMax = 65536;

// Images carry no length: the walk trusts the headers in the caller's own memory, as any driver
// must. Every function returns false with a reason in `why` when the image is of no known kind or
// damaged.

// All images in `image`: of a version-2 wrapper also those of its relocatable list.
bool parse_images(const void* image, std::vector<Image>* images, std::string* why);

// The same for bytes of known length (from the channel): never reads past `size`.
bool parse_images(const void* image, size_t size, std::vector<Image>* images, std::string* why);

// Whether bytes from a peer may be handed to a driver, which trusts the lengths and pointers in
// them: a container or cubin that ends within `size`, or text (the caller ends it with a NUL). A
// wrapper never passes, because it is made of addresses.
bool check_image(const void* image, size_t size, std::string* why);

// One blob that stands for the image elsewhere: the container's bytes (with the PTX of a wrapper's
// relocatable list added), the cubin, or the PTX text with its NUL.
bool flatten_image(const void* image, std::string* blob, std::string* why);
// The same without a copy where the bytes stand in one piece: *bytes are then the caller's own
// memory, else *blob.
bool view_image(const void* image, std::string* blob, std::string_view* bytes, std::string* why);

// The text of PTX, unpacked, without trailing NULs. Costs what the text is long: ask for the one
// that is wanted.
bool ptx_text(const Image& image, std::string* text, std::string* why);

// The bytes of an image, unpacked: its own, or *room. False: they are damaged.
bool unpacked_code(const Image& image, std::string* room, std::string_view* code);

// Whether the code of an image, unpacked, has `word` in it: the name of a function that it calls,
// for example. True also for what cannot be looked through, or is longer than kSearchBytesMax.
inline constexpr uint64_t kSearchBytesMax = 64ull << 20;
bool mentions(const Image& image, std::string_view word);

// Whether an image is for one architecture (sm_90a) or one family (sm_120f) and runs on no other.
bool is_bound(const Image& image);

// The PTX with the highest arch that runs on `capability` (121 = 12.1); nullptr when there is none.
// `general`: none that is_bound().
const Image* best_ptx(const std::vector<Image>& images, uint32_t capability, bool general = false);

}  // namespace vgpu::cudart
