// The suite's main: one back end per process.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  vgpu::conformance::set_up_backend();
  const int result = RUN_ALL_TESTS();
  vgpu::conformance::tear_down_backend();
  return result;
}
