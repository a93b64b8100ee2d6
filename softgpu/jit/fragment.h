// How the lanes of a warp hold the elements of a matrix: one rule for every shape and type of mma,
// another for wmma, whose layout PTX leaves open. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace vgpu::softgpu {

enum class MatrixType : uint32_t {
  kF16,
  kBf16,
  kTf32,
  kF32,
  kF64,
  kE4m3,
  kE5m2,
  kE3m2,  // these three in bytes: 6 bits at the bottom, 4 bits in the middle
  kE2m3,
  kE2m1,
  kE2m1Packed,  // two in a byte
  kS8,
  kU8,
  kS4,
  kU4,
  kB1,
  kS32,
  kNone
};

inline MatrixType matrix_type(const std::string& name) {
  static const struct {
    const char* name;
    MatrixType type;
  } kNames[] = {
      {"f16", MatrixType::kF16},   {"bf16", MatrixType::kBf16}, {"tf32", MatrixType::kTf32},
      {"f32", MatrixType::kF32},   {"f64", MatrixType::kF64},   {"e4m3", MatrixType::kE4m3},
      {"e5m2", MatrixType::kE5m2}, {"e3m2", MatrixType::kE3m2}, {"e2m3", MatrixType::kE2m3},
      {"e2m1", MatrixType::kE2m1}, {"s8", MatrixType::kS8},     {"u8", MatrixType::kU8},
      {"s4", MatrixType::kS4},     {"u4", MatrixType::kU4},     {"b1", MatrixType::kB1},
      {"s32", MatrixType::kS32}};
  for (const auto& row : kNames) {
    if (name == row.name) return row.type;
  }
  return MatrixType::kNone;
}

constexpr uint32_t matrix_bits(MatrixType t) {
  switch (t) {
    case MatrixType::kF64:
      return 64;
    case MatrixType::kTf32:
    case MatrixType::kF32:
    case MatrixType::kS32:
      return 32;
    case MatrixType::kF16:
    case MatrixType::kBf16:
      return 16;
    case MatrixType::kS4:
    case MatrixType::kU4:
    case MatrixType::kE2m1Packed:
      return 4;
    case MatrixType::kB1:
      return 1;
    default:
      return 8;
  }
}

struct Place {
  uint32_t row, column;
};

// A matrix spread over the warp: `registers` of 32 bits (64 for f64) in each lane, `per_register`
// elements in each, the lowest bits first.
struct Fragment {
  uint32_t rows = 0, columns = 0;
  uint32_t registers = 0, per_register = 1;
};

constexpr uint32_t register_bits(MatrixType t) { return t == MatrixType::kF64 ? 64 : 32; }

// mma: 8 lanes groups deep, 4 lanes wide. A: rows x k, by rows; B: k x columns, by columns (given
// here as columns x k, so that both follow one rule).
constexpr Fragment operand_fragment(uint32_t rows, uint32_t k, MatrixType t) {
  const uint32_t each = register_bits(t) / matrix_bits(t);
  return {rows, k, (rows / 8) * (k / (4 * each)), each};
}
constexpr Place operand_place(const Fragment& f, uint32_t lane, uint32_t r, uint32_t e) {
  const uint32_t tiles = f.rows / 8;
  return {lane / 4 + 8 * (r % tiles), (lane % 4 + 4 * (r / tiles)) * f.per_register + e};
}

// C and D: each lane has two neighbours of a row in every 8 x 8 tile, tiles down first.
constexpr Fragment result_fragment(uint32_t rows, uint32_t columns, MatrixType t) {
  const uint32_t each = register_bits(t) / matrix_bits(t);
  return {rows, columns, rows * columns / 32 / each, each};
}
constexpr Place result_place(const Fragment& f, uint32_t lane, uint32_t r, uint32_t e) {
  const uint32_t element = r * f.per_register + e, tile = element / 2, tiles = f.rows / 8;
  return {lane / 4 + 8 * (tile % tiles), lane % 4 * 2 + element % 2 + 8 * (tile / tiles)};
}

// wmma's A (rows x k) and B (columns x k): elements in row order, as many to a lane as needed; a
// lane's registers beyond those repeat them.
constexpr Place wmma_place(const Fragment& f, uint32_t lane, uint32_t r, uint32_t e) {
  const uint32_t each = f.rows * f.columns / 32;
  const uint32_t index = lane * each + (r * f.per_register + e) % each;
  return {index / f.columns, index % f.columns};
}

// A sparse A has half of its elements, two bits of metadata for each pair or each one: chunks of 2
// (32 bits), 4 or 8 (4 bits, by pairs) of a row, with four bits of metadata each.
constexpr uint32_t sparse_chunk(MatrixType t) {
  return matrix_bits(t) == 32 ? 2 : matrix_bits(t) == 4 ? 8 : 4;
}
// How many of four lanes hold the metadata of a group of rows; the selector says which.
constexpr uint32_t metadata_lanes(uint32_t k, MatrixType t) { return k / sparse_chunk(t) / 4; }
// Where four bits of metadata are: elements of 16 bits and more share a word between rows i and
// i + 8, smaller ones have a lane for each.
struct MetadataPlace {
  uint32_t lane, shift;
};
constexpr MetadataPlace metadata_place(uint32_t row, uint32_t chunk, uint32_t k, MatrixType t,
                                       uint32_t selector) {
  const uint32_t first = row % 8 * 4 + selector * metadata_lanes(k, t), half = row / 8;
  if (matrix_bits(t) >= 16) return {first + chunk / 4, half * 16 + chunk % 4 * 4};
  return {first + chunk / 8 * 2 + half, chunk % 8 * 4};
}

// What sparse and block-scaled products have besides: bits of a word. The scales' selectors are the
// program's.
enum MatrixExtra : uint32_t {
  kExtraSelector = 0,   // 2 bits: which lanes have the metadata
  kExtraSparse = 2,     // 1 bit
  kExtraScales = 3,     // 3 bits: of a row of A, and of a column of B; 0 = none
  kExtraScaleE4m3 = 6,  // 1 bit: ue4m3 instead of ue8m0
  kExtraByteA = 8,      // 2 bits each
  kExtraThreadA = 10,
  kExtraByteB = 12,
  kExtraThreadB = 14
};

// What one mma does; passed to the runtime by address of three words.
struct MatrixShape {
  uint32_t rows, columns, k;
};

}  // namespace vgpu::softgpu
