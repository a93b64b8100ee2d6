// Bytes: unaligned loads and stores, rounding, arithmetic that notices overflow.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_BYTES_H_
#define VGPU_BASE_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

namespace vgpu {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// Reads a T at any address.
template <typename T>
T load_unaligned(const void* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// Writes a T at any address.
template <typename T>
void store_unaligned(void* to, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(to, &value, sizeof(T));
}

// `alignment` is a power of two everywhere below.
constexpr bool is_power_of_two(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }
constexpr uint64_t align_down(uint64_t value, uint64_t alignment) {
  return value & ~(alignment - 1);
}
// Wraps to 0 for values within `alignment` of 2^64: check sizes of strangers first.
constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}
constexpr bool is_aligned(uint64_t value, uint64_t alignment) {
  return (value & (alignment - 1)) == 0;
}

// a + b and a * b into *out; false (and *out unspecified) when the result does not fit.
[[nodiscard]] inline bool checked_add(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_add_overflow(a, b, out);
}
[[nodiscard]] inline bool checked_multiply(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}

// Whether [offset, offset + bytes) lies in [0, limit), without overflow.
constexpr bool range_within(uint64_t offset, uint64_t bytes, uint64_t limit) {
  return offset <= limit && bytes <= limit - offset;
}

// Reads a T at `offset` of a byte range that may be too short: false then, *out untouched.
template <typename T>
[[nodiscard]] bool read_at(std::span<const std::byte> bytes, uint64_t offset, T* out) {
  if (!range_within(offset, sizeof(T), bytes.size())) return false;
  *out = load_unaligned<T>(bytes.data() + offset);
  return true;
}

}  // namespace vgpu

#endif  // VGPU_BASE_BYTES_H_
