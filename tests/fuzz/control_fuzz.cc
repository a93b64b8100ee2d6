// libFuzzer: any bytes as a control message.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "tests/fuzz/protocol_script.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t bytes, size_t bytes_max);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  (void)vgpu::protocol::run_control_script({data, bytes});
  return 0;
}

// Bytes that are no message at all end in the verifier's first check; now and then a mutation
// starts from a real one instead.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t bytes, size_t bytes_max,
                                          unsigned seed) {
  static const auto seeds = vgpu::protocol::control_seeds();
  if (seed % 4 == 0) {
    const auto& real = seeds[seed / 4 % seeds.size()];
    bytes = std::min(real.size(), bytes_max);
    std::memcpy(data, real.data(), bytes);
  }
  return LLVMFuzzerMutate(data, bytes, bytes_max);
}
