// libFuzzer: any text as PTX.
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/ptx_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  (void)vgpu::softgpu::run_ptx_script({reinterpret_cast<const char*>(data), bytes});
  return 0;
}
