// The session fuzzer's scripts from a few thousand seeds: runs everywhere, without libFuzzer.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "api/driver_loader.h"
#include "tests/fuzz/session_script.h"

namespace vgpu::testing {
namespace {

TEST(SessionSmoke, NoScriptBreaksASession) {
  DriverTable driver;
  ASSERT_EQ(load_driver_table(MEMORY_DRIVER, &driver), nullptr);
  int malformed = 0, whole = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<uint8_t> bytes(16 + random() % 600);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    const ScriptResult result = run_session_script(&driver, bytes);
    EXPECT_GT(result.records, 0u);
    (result.malformed ? malformed : whole) += 1;
  }
  // Most break a rule sooner or later; a script that never could would test nothing.
  EXPECT_GT(malformed, 100);
  EXPECT_GT(whole, 0);
  std::printf("%d scripts broke a rule, %d did not\n", malformed, whole);
}

}  // namespace
}  // namespace vgpu::testing
