// mma, wmma and the moves of 8 x 8 tiles between shared memory and fragments. They touch guest
// memory: a fault leaves them by longjmp, so nothing here may own anything.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "softgpu/jit/fragment.h"
#include "softgpu/jit/runtime.h"
#include "softgpu/jit/small_format.h"

namespace vgpu::softgpu {
namespace {

constexpr uint32_t kRowsMax = 32, kDepthMax = 256, kElementsMax = 16 * kDepthMax;

float half_value(uint32_t h) {
  uint32_t bits = (h & 0x7fff) << 13;
  float v = std::bit_cast<float>(bits) * 0x1p112f;
  if ((h & 0x7c00) == 0x7c00) v = std::bit_cast<float>(bits | 0x7f800000);
  return (h & 0x8000) != 0 ? -v : v;
}

template <uint32_t format>
const std::array<float, 256>& byte_floats() {
  static const std::array<float, 256> kTable = [] {
    std::array<float, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) t[i] = decode_small_float(i, format);
    return t;
  }();
  return kTable;
}

// An element's value; integers are exact in every T they are used with.
template <typename T>
T value_of(uint64_t bits, MatrixType t) {
  switch (t) {
    case MatrixType::kF16:
      return static_cast<T>(half_value(static_cast<uint32_t>(bits)));
    case MatrixType::kBf16:
      return static_cast<T>(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
    case MatrixType::kTf32:  // the low bits do not take part
      return static_cast<T>(std::bit_cast<float>(static_cast<uint32_t>(bits) & 0xffffe000));
    case MatrixType::kF32:
      return static_cast<T>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case MatrixType::kF64:
      return static_cast<T>(std::bit_cast<double>(bits));
    case MatrixType::kE4m3:
      return static_cast<T>(byte_floats<kFormatE4m3>()[bits & 255]);
    case MatrixType::kE5m2:
      return static_cast<T>(byte_floats<kFormatE5m2>()[bits & 255]);
    case MatrixType::kE3m2:
      return static_cast<T>(decode_small_float(bits & 63, kFormatE3m2));
    case MatrixType::kE2m3:
      return static_cast<T>(decode_small_float(bits & 63, kFormatE2m3));
    case MatrixType::kE2m1:
      return static_cast<T>(decode_small_float(bits >> 2 & 15, kFormatE2m1));
    case MatrixType::kE2m1Packed:
      return static_cast<T>(decode_small_float(bits & 15, kFormatE2m1));
    case MatrixType::kS8:
      return static_cast<T>(static_cast<int8_t>(bits));
    case MatrixType::kS4:
      return static_cast<T>(static_cast<int8_t>(bits << 4) >> 4);
    case MatrixType::kS32:
      return static_cast<T>(static_cast<int32_t>(bits));
    default:
      return static_cast<T>(bits);
  }
}

// The bits of element e of register r of a lane; `registers` holds 32 lanes one behind the other.
uint64_t element_bits(const void* registers, MatrixType t, uint32_t r, uint32_t lane, uint32_t e) {
  if (t == MatrixType::kF64) return static_cast<const uint64_t*>(registers)[r * 32 + lane];
  const uint32_t word = static_cast<const uint32_t*>(registers)[r * 32 + lane];
  const uint32_t bits = matrix_bits(t);
  return bits == 32 ? word : word >> (e * bits) & ((1u << bits) - 1);
}

void set_element(void* registers, MatrixType t, uint32_t r, uint32_t lane, uint32_t e,
                 uint64_t value) {
  if (t == MatrixType::kF64) {
    static_cast<uint64_t*>(registers)[r * 32 + lane] = value;
    return;
  }
  uint32_t& word = static_cast<uint32_t*>(registers)[r * 32 + lane];
  const uint32_t bits = matrix_bits(t);
  const uint32_t field = bits == 32 ? ~0u : ((1u << bits) - 1) << (e * bits);
  word = (word & ~field) | (static_cast<uint32_t>(value) << (e * bits) & field);
}

using PlaceOf = Place (*)(const Fragment&, uint32_t, uint32_t, uint32_t);

// Calls f(row, column, register, lane, element) for every element that the warp holds.
template <typename F>
void for_each(const Fragment& f, PlaceOf place, F visit) {
  for (uint32_t r = 0; r < f.registers; ++r) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t e = 0; e < f.per_register; ++e) {
        const Place p = place(f, lane, r, e);
        visit(p.row, p.column, r, lane, e);
      }
    }
  }
}

// Bits of a result of type t.
template <typename T>
uint64_t result_bits(T v, MatrixType t) {
  if (t == MatrixType::kF16) {
    return encode_small_float(static_cast<double>(v), kFormatHalf);
  }
  if (t == MatrixType::kF64) return std::bit_cast<uint64_t>(static_cast<double>(v));
  if (t == MatrixType::kF32) return std::bit_cast<uint32_t>(static_cast<float>(v));
  return static_cast<uint32_t>(static_cast<int64_t>(v));
}

struct Product {
  MatrixShape shape;
  MatrixType a, b, c, d;
  bool xor_bits, saturates, wmma;
  // Of sparse and scaled ones; words of 32 lanes each.
  uint32_t extra = 0;
  const uint32_t *metadata = nullptr, *scale_a = nullptr, *scale_b = nullptr;

  uint32_t option(uint32_t at, uint32_t bits) const { return extra >> at & ((1u << bits) - 1); }
};

// Moves the elements of a sparse A, rows x k / 2, to their places among zeros.
template <typename T>
void spread_out(const Product& p, const T* packed, T* whole) {
  const uint32_t k = p.shape.k, chunk = sparse_chunk(p.a), chunks = k / chunk;
  const uint32_t unit = chunk == 8 ? 2 : 1, selector = p.option(kExtraSelector, 2);
  for (uint32_t i = 0; i < p.shape.rows * k; ++i) whole[i] = T{};
  for (uint32_t row = 0; row < p.shape.rows; ++row) {
    for (uint32_t c = 0; c < chunks; ++c) {
      const MetadataPlace at = metadata_place(row, c, k, p.a, selector);
      const uint32_t bits = p.metadata[at.lane] >> at.shift & 15;
      const T* from = packed + row * (k / 2) + c * (chunk / 2);
      T* to = whole + row * k + c * chunk;
      if (chunk == 2) {  // of 32 bits: the indices are those of its halves
        to[bits >> 1 & 1] = from[0];
        continue;
      }
      for (uint32_t i = 0; i < chunk / 2; ++i) {
        const uint32_t index = i / unit == 0 ? bits & 3 : bits >> 2;
        to[index * unit + i % unit] = from[i];
      }
    }
  }
}

double scale_value(uint32_t bits, bool e4m3) {
  return e4m3 ? decode_small_float(bits & 127, kFormatE4m3)
              : double{decode_small_float(bits & 255, kFormatE8m0)};
}

// Lanes 0 and 1 of four, or 2 and 3, have the scales of rows i and i + 8; one of four those of a
// column.
template <typename T>
void scale(const Product& p, T* left, T* right) {
  const uint32_t k = p.shape.k, n = p.shape.columns, count = p.option(kExtraScales, 3);
  const bool e4m3 = p.option(kExtraScaleE4m3, 1) != 0;
  const auto factor = [&](const uint32_t* words, uint32_t lane, uint32_t byte) {
    return static_cast<T>(scale_value(words[lane & 31] >> (byte % 4 * 8), e4m3));
  };
  for (uint32_t x = 0; x < k; ++x) {
    const uint32_t part = x / (k / count);
    for (uint32_t i = 0; i < p.shape.rows; ++i) {
      const uint32_t lane = i % 8 * 4 + p.option(kExtraThreadA, 1) * 2 + i / 8;
      left[i * k + x] *= factor(p.scale_a, lane, p.option(kExtraByteA, 2) + part);
    }
    for (uint32_t j = 0; j < n; ++j) {
      const uint32_t lane = j * 4 + p.option(kExtraThreadB, 2);
      right[x * n + j] *= factor(p.scale_b, lane, p.option(kExtraByteB, 2) + part);
    }
  }
}

template <typename T>
void multiply(const Product& p, const void* a, const void* b, const void* c, void* d) {
  T left[kElementsMax], right[kElementsMax], sum[kRowsMax * kRowsMax];
  const uint32_t k = p.shape.k, n = p.shape.columns;
  const PlaceOf place = p.wmma ? wmma_place : operand_place;
  const bool sparse = p.option(kExtraSparse, 1) != 0;
  const uint32_t columns_a = sparse ? k / 2 : k;
  Fragment fa = operand_fragment(p.shape.rows, columns_a, p.a), fb = operand_fragment(n, k, p.b);
  if (p.wmma) {  // what repeats is not looked at
    fa.registers = p.shape.rows * k / 32 / fa.per_register;
    fb.registers = n * k / 32 / fb.per_register;
  }
  const Fragment fc = result_fragment(p.shape.rows, n, p.c);
  const Fragment fd = result_fragment(p.shape.rows, n, p.d);
  for_each(fa, place, [&](uint32_t i, uint32_t j, uint32_t r, uint32_t lane, uint32_t e) {
    left[i * columns_a + j] = value_of<T>(element_bits(a, p.a, r, lane, e), p.a);
  });
  if (sparse) {
    T packed[kElementsMax / 2];
    std::memcpy(packed, left, sizeof(T) * p.shape.rows * columns_a);
    spread_out(p, packed, left);
  }
  for_each(fb, place, [&](uint32_t i, uint32_t j, uint32_t r, uint32_t lane, uint32_t e) {
    right[j * n + i] = value_of<T>(element_bits(b, p.b, r, lane, e), p.b);
  });
  if (p.option(kExtraScales, 3) != 0) scale(p, left, right);
  for_each(fc, result_place, [&](uint32_t i, uint32_t j, uint32_t r, uint32_t lane, uint32_t e) {
    sum[i * n + j] = value_of<T>(element_bits(c, p.c, r, lane, e), p.c);
  });
  for (uint32_t i = 0; i < p.shape.rows; ++i) {
    for (uint32_t x = 0; x < k; ++x) {
      const T factor = left[i * k + x];
      if constexpr (std::is_integral_v<T>) {
        if (p.xor_bits) {
          for (uint32_t j = 0; j < n; ++j) sum[i * n + j] += factor ^ right[x * n + j];
          continue;
        }
      }
      for (uint32_t j = 0; j < n; ++j) sum[i * n + j] += factor * right[x * n + j];
    }
  }
  for_each(fd, result_place, [&](uint32_t i, uint32_t j, uint32_t r, uint32_t lane, uint32_t e) {
    T v = sum[i * n + j];
    if constexpr (std::is_integral_v<T>) {
      if (p.saturates) v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
    }
    set_element(d, p.d, r, lane, e, result_bits(v, p.d));
  });
}

Product product_of(uint32_t shape, uint32_t types, uint32_t flags) {
  auto type = [&](unsigned at) { return static_cast<MatrixType>(types >> at & 255); };
  return {{shape & 255, shape >> 8 & 255, shape >> 16},
          type(0),
          type(8),
          type(16),
          type(24),
          (flags & 1) != 0,
          (flags & 2) != 0,
          (flags & 4) != 0};
}

// shape: rows | columns << 8 | k << 16. types: a | b << 8 | c << 16 | d << 24.
// flags: 1 = xor, 2 = saturate, 4 = wmma.
void mma(uint32_t shape, uint32_t types, uint32_t flags, const void* a, const void* b,
         const void* c, void* d) {
  const Product p = product_of(shape, types, flags);
  if (p.d == MatrixType::kF64) return multiply<double>(p, a, b, c, d);
  if (p.d == MatrixType::kS32) return multiply<int64_t>(p, a, b, c, d);
  multiply<float>(p, a, b, c, d);
}

// The same with a sparse A, with scales, or both. words: metadata, scales of A, scales of B, of 32
// lanes each.
void mma_extra(uint32_t shape, uint32_t types, uint32_t flags, uint32_t extra,
               const uint32_t* words, const void* a, const void* b, const void* c, void* d) {
  Product p = product_of(shape, types, flags);
  p.extra = extra;
  p.metadata = words;
  p.scale_a = words + 32;
  p.scale_b = words + 64;
  if (p.d == MatrixType::kS32) return multiply<int64_t>(p, a, b, c, d);
  if (p.option(kExtraScales, 3) != 0) return multiply<double>(p, a, b, c, d);  // scales reach far
  multiply<float>(p, a, b, c, d);
}

// Where element (row, column) of a matrix in memory lies, in bits.
uint64_t bit_offset(Place p, bool by_columns, uint64_t stride, uint32_t bits) {
  const uint64_t index = by_columns ? p.column * stride + p.row : p.row * stride + p.column;
  return index * bits;
}

uint64_t read_bits(const uint8_t* base, uint64_t at, uint32_t bits) {
  uint64_t v = 0;
  std::memcpy(&v, base + at / 8, bits < 8 ? 1 : bits / 8);
  return bits < 8 ? v >> (at % 8) & ((1u << bits) - 1) : v;
}

// A fragment of wmma. kind: 0 = A, 1 = B (held as columns x k), 2 = C. By columns: of the matrix
// as the program sees it.
struct Transfer {
  Fragment fragment;
  MatrixType type;
  PlaceOf place;
  bool by_columns;

  Transfer(uint32_t shape, uint32_t code, uint32_t registers)
      : type(static_cast<MatrixType>(code & 255)), by_columns((code >> 16 & 1) != 0) {
    const uint32_t rows = shape & 255, columns = shape >> 8 & 255, k = shape >> 16;
    const uint32_t kind = code >> 8 & 255;
    const uint32_t each = register_bits(type) / matrix_bits(type);
    place = kind == 2 ? result_place : wmma_place;
    if (kind == 0) fragment = {rows, k, registers, each};
    if (kind == 1) fragment = {columns, k, registers, each};
    if (kind == 2) fragment = {rows, columns, registers, each};
    if (kind == 1) by_columns = !by_columns;
  }
};

void wmma_load(uint32_t shape, uint32_t code, uint32_t registers, const uint64_t* address,
               const uint32_t* stride, void* out) {
  const Transfer t(shape, code, registers);
  const auto* base = reinterpret_cast<const uint8_t*>(address[0]);
  const uint32_t bits = matrix_bits(t.type);
  for_each(t.fragment, t.place, [&](uint32_t i, uint32_t j, uint32_t r, uint32_t lane, uint32_t e) {
    const uint64_t at = bit_offset({i, j}, t.by_columns, stride[0], bits);
    set_element(out, t.type, r, lane, e, read_bits(base, at, bits));
  });
}

void wmma_store(uint32_t shape, uint32_t code, uint32_t registers, const uint64_t* address,
                const uint32_t* stride, const void* in) {
  const Transfer t(shape, code, registers);
  auto* base = reinterpret_cast<uint8_t*>(address[0]);
  const uint32_t bits = matrix_bits(t.type);
  for_each(t.fragment, t.place, [&](uint32_t i, uint32_t j, uint32_t r, uint32_t lane, uint32_t e) {
    const uint64_t at = bit_offset({i, j}, t.by_columns, stride[0], bits);
    const uint64_t v = element_bits(in, t.type, r, lane, e);
    std::memcpy(base + at / 8, &v, bits / 8);
  });
}

// Lane l of a tile has elements 2(l%4) and 2(l%4)+1 of row l/4; transposed, of column l/4.
void load_tiles(uint32_t count, uint32_t transposed, const uint64_t* address, uint32_t* out) {
  for (uint32_t t = 0; t < count; ++t) {
    uint16_t tile[8][8];
    for (uint32_t row = 0; row < 8; ++row)
      std::memcpy(tile[row], reinterpret_cast<const void*>(address[t * 8 + row]), 16);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t i = lane / 4, j = lane % 4 * 2;
      const uint32_t low = transposed != 0 ? tile[j][i] : tile[i][j];
      const uint32_t high = transposed != 0 ? tile[j + 1][i] : tile[i][j + 1];
      out[t * 32 + lane] = low | high << 16;
    }
  }
}

void store_tiles(uint32_t count, uint32_t transposed, const uint64_t* address, const uint32_t* in) {
  for (uint32_t t = 0; t < count; ++t) {
    uint16_t tile[8][8];
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t i = lane / 4, j = lane % 4 * 2, word = in[t * 32 + lane];
      (transposed != 0 ? tile[j][i] : tile[i][j]) = static_cast<uint16_t>(word);
      (transposed != 0 ? tile[j + 1][i] : tile[i][j + 1]) = static_cast<uint16_t>(word >> 16);
    }
    for (uint32_t row = 0; row < 8; ++row)
      std::memcpy(reinterpret_cast<void*>(address[t * 8 + row]), tile[row], 16);
  }
}

void transpose_tile(const uint32_t* in, uint32_t* out) {
  auto element = [&](uint32_t i, uint32_t j) { return in[i * 4 + j / 2] >> (j % 2 * 16) & 0xffff; };
  uint32_t result[32];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t i = lane / 4, j = lane % 4 * 2;
    result[lane] = element(j, i) | element(j + 1, i) << 16;
  }
  std::memcpy(out, result, sizeof result);
}

}  // namespace

std::span<const RuntimeSymbol> runtime_matrix_symbols() {
  static const RuntimeSymbol kSymbols[] = {
      {"sg_mma", reinterpret_cast<void*>(mma)},
      {"sg_mma_extra", reinterpret_cast<void*>(mma_extra)},
      {"sg_wmma_load", reinterpret_cast<void*>(wmma_load)},
      {"sg_wmma_store", reinterpret_cast<void*>(wmma_store)},
      {"sg_load_tiles", reinterpret_cast<void*>(load_tiles)},
      {"sg_store_tiles", reinterpret_cast<void*>(store_tiles)},
      {"sg_transpose_tile", reinterpret_cast<void*>(transpose_tile)}};
  return kSymbols;
}

}  // namespace vgpu::softgpu
