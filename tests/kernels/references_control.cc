// Expected results of the kernels about control flow.
// SPDX-License-Identifier: Apache-2.0
#include "references_control.h"

namespace vgpu::softgpu {

void sum_then_choose(Buffer* d) {
  for (uint32_t i = 0; i < d->count; ++i) {
    const uint32_t sum = i * (i + 1) / 2;
    d->as<uint32_t>()[i] = i % 2 != 0 ? sum + 7 : 2 * sum;
  }
}

void triangular(Buffer* d) {
  for (uint32_t i = 0; i < d->count; ++i) d->as<uint32_t>()[i] = i * (i + 1) / 2;
}

void wrapped(Buffer* d) {
  for (uint32_t i = 0; i < d->count; ++i) d->as<uint64_t>()[i] = uint64_t{i - 9} * 5;
}

void hashes(Buffer* d) {
  for (uint32_t i = 0; i < d->count; ++i)
    d->as<int64_t>()[i] = static_cast<int32_t>(i * 2654435761u);
}

void spin_registers(Buffer* d) {
  for (uint32_t i = 0; i < d->count; ++i) d->as<uint32_t>()[i] = (i + 5 + 7 + 9) * 1000 + 11;
}

void cluster_barrier_sums(Buffer* d) {
  for (uint32_t i = 0; i < d->count; ++i) {
    const uint32_t block = i / 96, thread = i % 96;
    d->as<uint32_t>()[i] = block % 4 != 3 && thread < 80 ? 3 * 80 : 0;
  }
}

void member_masks(Buffer* d) {
  auto* r = d->as<uint32_t>();
  for (uint32_t i = 0; i < d->count; ++i) r[i] = i * 7;
  for (int round = 0; round < 4; ++round) {
    for (uint32_t i = 0; i < d->count; ++i) r[i] += i % 4 == 1 ? 1 : i % 4 == 2 ? 2 : 0;
    for (uint32_t i = 0; i < d->count; i += 2) {
      const uint32_t a = r[i], b = r[i + 1];
      r[i] = a * 3 + b + 48;
      r[i + 1] = b * 3 + a + 48;
    }
  }
  for (uint32_t i = 0; i < d->count; i += 32) r[i] += 1000000;
}

}  // namespace vgpu::softgpu
