// Expected results that are computed: named by kernel files after `ref`.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>

#include "kernel_file.h"

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

}  // namespace

bool apply_reference(const std::string& name, const Parameters& parameters, Buffer* out) {
  static const std::map<std::string, void (*)(const Parameters&, Buffer*)> kReferences = {
      {"add_first_n", add_first_n}, {"collatz", collatz}, {"add_128", add_128}};
  auto it = kReferences.find(name);
  if (it == kReferences.end()) return false;
  it->second(parameters, out);
  return true;
}

}  // namespace vgpu::softgpu
