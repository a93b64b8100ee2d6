// libFuzzer: any bytes as a guest of a whole session on the memory double.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "api/driver_loader.h"
#include "tests/fuzz/session_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  static vgpu::DriverTable driver;
  if (driver.cuInit == nullptr && vgpu::load_driver_table(MEMORY_DRIVER, &driver) != nullptr) {
    std::abort();
  }
  constexpr int64_t kAnswerNs = 5'000'000;
  (void)vgpu::testing::run_session_script(&driver, {data, bytes}, kAnswerNs);
  return 0;
}
