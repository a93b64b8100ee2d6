// libFuzzer: any bytes as an image that came through the channel, or lies behind a wrapper.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "tests/fuzz/image_script.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t bytes, size_t bytes_max);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  (void)vgpu::cudart::run_image_script({data, bytes});
  return 0;
}

// Compressed text is seldom met by chance: now and then a mutation starts from a real image.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t bytes, size_t bytes_max,
                                          unsigned seed) {
  static const auto seeds = vgpu::cudart::image_seeds();
  if (seed % 8 == 0) {
    const auto& real = seeds[seed / 8 % seeds.size()];
    bytes = std::min(real.size(), bytes_max);
    std::memcpy(data, real.data(), bytes);
  }
  return LLVMFuzzerMutate(data, bytes, bytes_max);
}
