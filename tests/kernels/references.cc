// Expected results that are computed: named by kernel files after `ref`.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>

#include "kernel_file.h"
#include "references_control.h"
#include "small_float.h"

namespace vgpu::softgpu {
namespace {

using Parameters = std::vector<KernelFile::Parameter>;

const Buffer& input(const Parameters& p, const std::string& name) {
  static const Buffer kNone;
  for (const auto& one : p) {
    if (one.before.name == name) return one.before;
  }
  return kNone;
}

// d = a + b for the first n, else 0
void add_first_n(const Parameters& p, Buffer* d) {
  const float *a = input(p, "a").as<float>(), *b = input(p, "b").as<float>();
  constexpr uint32_t n = 970;
  for (uint32_t i = 0; i < d->count; ++i) d->as<float>()[i] = i < n ? a[i] + b[i] : 0;
}

// Steps of the 3n+1 sequence from a down to 1
void collatz(const Parameters& p, Buffer* d) {
  for (uint32_t i = 0; i < d->count; ++i) {
    uint32_t x = input(p, "a").as<uint32_t>()[i], steps = 0;
    for (; x > 1; ++steps) x = x % 2 == 0 ? x / 2 : 3 * x + 1;
    d->as<uint32_t>()[i] = steps;
  }
}

// 128-bit sums of pairs of words
void add_128(const Parameters& p, Buffer* d) {
  const uint64_t *a = input(p, "a").as<uint64_t>(), *b = input(p, "b").as<uint64_t>();
  for (uint32_t i = 0; i + 1 < d->count; i += 2) {
    unsigned __int128 x = a[i + 1], y = b[i + 1];
    x = x << 64 | a[i];
    y = y << 64 | b[i];
    x += y;
    d->as<uint64_t>()[i] = static_cast<uint64_t>(x);
    d->as<uint64_t>()[i + 1] = static_cast<uint64_t>(x >> 64);
  }
}

// Lane l of tile t: elements 2(l%4) and 2(l%4)+1 of row l/4. Rows of 8 halves, tile after tile.
uint32_t tile_word(const uint16_t* a, uint32_t tile, uint32_t lane, bool transposed) {
  const uint32_t i = lane / 4, j = lane % 4 * 2;
  auto at = [&](uint32_t row, uint32_t column) {
    return uint32_t{a[tile * 64 + (transposed ? column * 8 + row : row * 8 + column)]};
  };
  return at(i, j) | at(i, j + 1) << 16;
}
void tiles(const Parameters& p, Buffer* d, bool transposed) {
  for (uint32_t i = 0; i < d->count; ++i)
    d->as<uint32_t>()[i] = tile_word(input(p, "a").as<uint16_t>(), i % 4, i / 4, transposed);
}
void tiles_plain(const Parameters& p, Buffer* d) { tiles(p, d, false); }
void tiles_transposed(const Parameters& p, Buffer* d) { tiles(p, d, true); }
void tile_moved(const Parameters& p, Buffer* d) {
  for (uint32_t i = 0; i < d->count; ++i)
    d->as<uint32_t>()[i] = tile_word(input(p, "a").as<uint16_t>(), 0, i, true);
}

// D = A B + C, 16 x 16: A by rows, B by columns
void wmma_product(const Parameters& p, Buffer* d) {
  const uint16_t *a = input(p, "a").as<uint16_t>(), *b = input(p, "b").as<uint16_t>();
  for (uint32_t i = 0; i < 16; ++i) {
    for (uint32_t j = 0; j < 16; ++j) {
      double sum = input(p, "c").as<float>()[i * 16 + j];
      for (uint32_t k = 0; k < 16; ++k)
        sum += decode(a[i * 16 + k], kHalf) * decode(b[j * 16 + k], kHalf);
      d->as<float>()[i * 16 + j] = static_cast<float>(sum);
    }
  }
}

// narrow_rows.ptx: one sum a thread, but none in column 3; rows of `width` threads
uint32_t narrow_sum(const Parameters& p, uint32_t i, uint32_t width) {
  return input(p, "a").as<uint32_t>()[i] + input(p, "b").as<uint32_t>()[i / width];
}
void narrow_sums(const Parameters& p, Buffer* d) {
  const uint32_t width = input(p, "width").as<uint32_t>()[0];
  for (uint32_t i = 0; i < d->count; ++i)
    d->as<uint32_t>()[i] = i % width == 3 ? 0 : narrow_sum(p, i, width);
}
void narrow_pairs(const Parameters& p, Buffer* d) {
  const uint32_t width = input(p, "width").as<uint32_t>()[0];
  const uint32_t* q = input(p, "q").as<uint32_t>();
  for (uint32_t i = 0; i < d->count / 2; ++i) {
    if (i % width == 3) continue;
    d->as<uint32_t>()[2 * i] = q[2 * i + 1] + narrow_sum(p, i, width);
    d->as<uint32_t>()[2 * i + 1] = q[2 * i];
  }
}

}  // namespace

bool apply_reference(const std::string& name, const Parameters& parameters, Buffer* out) {
  static const std::map<std::string, void (*)(const Parameters&, Buffer*)> kReferences = {
      {"add_first_n", add_first_n},
      {"collatz", collatz},
      {"add_128", add_128},
      {"tiles_plain", tiles_plain},
      {"tiles_transposed", tiles_transposed},
      {"tile_moved", tile_moved},
      {"wmma_product", wmma_product},
      {"narrow_sums", narrow_sums},
      {"narrow_pairs", narrow_pairs}};
  static const std::map<std::string, void (*)(Buffer*)> kControl = {
      {"sum_then_choose", sum_then_choose},
      {"triangular", triangular},
      {"wrapped", wrapped},
      {"spin_registers", spin_registers},
      {"member_masks", member_masks}};
  if (auto control = kControl.find(name); control != kControl.end()) {
    control->second(out);
    return true;
  }
  auto it = kReferences.find(name);
  if (it == kReferences.end()) return false;
  it->second(parameters, out);
  return true;
}

}  // namespace vgpu::softgpu
