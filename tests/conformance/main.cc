// The suite's main: one back end per process.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "backend.h"

int main(int argc, char** argv) {
  if (const char* ready = std::getenv("VGPU_TEST_NEIGHBOUR"); ready != nullptr)
    return vgpu::conformance::be_neighbour(ready);
  ::testing::InitGoogleTest(&argc, argv);
  vgpu::conformance::set_up_backend();
  const int result = RUN_ALL_TESTS();
  if (!vgpu::conformance::tear_down_backend()) return 1;
  // A filter that names nothing would pass, be it ctest's or that of a test's own child.
  if (!GTEST_FLAG_GET(list_tests) && ::testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::fprintf(stderr, "no test matches\n");
    return 1;
  }
  return result;
}
