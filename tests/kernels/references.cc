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

// Sums of rows that begin at `first` and have `length` words; thread 40 and those from 91 on write
// nothing
void ragged_sums(const Parameters& p, Buffer* d) {
  const auto *first = input(p, "first").as<uint32_t>(), *length = input(p, "length").as<uint32_t>();
  const uint32_t *column = input(p, "column").as<uint32_t>(),
                 *value_of = input(p, "value_of").as<uint32_t>();
  for (uint32_t i = 0; i < 91; ++i) {
    uint32_t sum = 0;
    for (uint32_t k = first[i]; k < first[i] + length[i]; ++k) sum += value_of[column[k]];
    d->as<uint32_t>()[i] = i == 40 ? 0 : sum;
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

// gather_runs.ptx
void runs(const Parameters& p, Buffer* d) {
  constexpr uint32_t kFactors[] = {3, 5, 7, 11, 1, 0, 13, 17, 0, 19};
  for (uint32_t t = 0; t < d->count; ++t) {
    const uint32_t* const a = input(p, "a").as<uint32_t>() + (input(p, "p").as<uint32_t>()[t] & 31);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 10; ++i) sum += kFactors[i] * a[i];
    d->as<uint32_t>()[t] = t % 5 == 0 ? 0 : sum;
  }
}
void wide_runs(const Parameters& p, Buffer* e) {
  for (uint32_t t = 0; t < e->count / 2; ++t) {
    if (t % 5 == 0) continue;
    const uint32_t at = (input(p, "p").as<uint32_t>()[t] & 28) / 2;
    e->as<uint64_t>()[2 * t] = input(p, "a").as<uint64_t>()[at + 1];
    e->as<uint64_t>()[2 * t + 1] = input(p, "a").as<uint64_t>()[at];
  }
}

// shared_windows.ptx
void windows(const Parameters& p, Buffer* d) {
  const uint32_t* const a = input(p, "a").as<uint32_t>();
  for (uint32_t t = 0; t < 64; ++t) {
    const uint32_t order = input(p, "p").as<uint32_t>()[t];
    const uint32_t at = (t & 48) * 2 + (order & 31);
    d->as<uint32_t>()[t] = a[at];
    d->as<uint32_t>()[64 + t] = a[(order & 508) / 4];
    if ((order >> 7 & 3) != 0) d->as<uint32_t>()[128 + t] = a[at ^ 1];
  }
}

// scatter_some.ptx
void some_rows(const Parameters& p, Buffer* d) {
  const uint32_t step = input(p, "step").as<uint32_t>()[0];
  for (uint32_t i = 0; i < d->count; ++i) d->as<uint32_t>()[i] = 7;
  for (uint32_t t = 0; t < 64; ++t) {
    if ((input(p, "p").as<uint32_t>()[t] & 3) == 1)
      d->as<uint32_t>()[2 * t - (t & (step - 1))] += t;
  }
}

}  // namespace

bool apply_reference(const std::string& name, const Parameters& parameters, Buffer* out) {
  static const std::map<std::string, void (*)(const Parameters&, Buffer*)> kReferences = {
      {"add_first_n", add_first_n},
      {"collatz", collatz},
      {"ragged_sums", ragged_sums},
      {"add_128", add_128},
      {"tiles_plain", tiles_plain},
      {"tiles_transposed", tiles_transposed},
      {"tile_moved", tile_moved},
      {"wmma_product", wmma_product},
      {"narrow_sums", narrow_sums},
      {"narrow_pairs", narrow_pairs},
      {"runs", runs},
      {"wide_runs", wide_runs},
      {"windows", windows},
      {"some_rows", some_rows}};
  static const std::map<std::string, void (*)(Buffer*)> kControl = {
      {"sum_then_choose", sum_then_choose},
      {"triangular", triangular},
      {"wrapped", wrapped},
      {"hashes", hashes},
      {"spin_registers", spin_registers},
      {"member_masks", member_masks},
      {"cluster_barrier_sums", cluster_barrier_sums}};
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
