// Whole lines are streamed, what is left at both ends is copied.
// SPDX-License-Identifier: Apache-2.0
#include "base/stream_copy.h"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace vgpu {

#if defined(__SSE2__)

namespace {

// Calls store(place, part) for every 16 bytes of the whole lines of `to`.
template <typename Store>
void copy_lines(void* to, const void* from, size_t bytes, Store store) {
  constexpr size_t kLine = 64, kPart = sizeof(__m128i);
  auto* target = static_cast<char*>(to);
  auto* source = static_cast<const char*>(from);
  const size_t head = (kLine - reinterpret_cast<uintptr_t>(target) % kLine) % kLine;
  if (bytes < head + kLine) {
    std::memcpy(target, source, bytes);
    return;
  }
  std::memcpy(target, source, head);
  size_t done = head;
  for (; bytes - done >= kLine; done += kLine) {
    __m128i parts[kLine / kPart];
    for (size_t i = 0; i < kLine / kPart; ++i) {
      parts[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + done + i * kPart));
    }
    for (size_t i = 0; i < kLine / kPart; ++i) {
      store(reinterpret_cast<__m128i*>(target + done + i * kPart), parts[i]);
    }
  }
  std::memcpy(target + done, source + done, bytes - done);
}

}  // namespace

void stream_copy(void* to, const void* from, size_t bytes) {
  copy_lines(to, from, bytes, [](__m128i* place, __m128i part) { _mm_stream_si128(place, part); });
  _mm_sfence();  // streamed stores are not ordered with later ones by themselves
}

void line_copy(void* to, const void* from, size_t bytes) {
  copy_lines(to, from, bytes, [](__m128i* place, __m128i part) { _mm_store_si128(place, part); });
}

#else

void stream_copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

void line_copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

#endif

}  // namespace vgpu
