// libFuzzer: any bytes as what comes over a network.
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mirror_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  (void)vgpu::net::run_mirror_script({data, bytes});
  return 0;
}
