// A short run of the network's fuzz engine with fixed seeds: what every build does.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/fuzz/mirror_script.h"

namespace vgpu::net {
namespace {

// Messages that pass the first check, mostly of small numbers.
std::vector<uint8_t> random_script(std::mt19937_64* random) {
  std::vector<uint8_t> script{static_cast<uint8_t>((*random)())};
  for (uint64_t messages = 1 + (*random)() % 4; messages > 0; --messages) {
    script.insert(script.end(), {0xff, 0xff});
    for (int i = 0; i < 512; ++i) {
      const bool small = (*random)() % 16 != 0;
      script.push_back(static_cast<uint8_t>(small ? 0 : (*random)() % 64));
    }
  }
  // The last one ends where it likes.
  script.resize(script.size() - (*random)() % 500);
  return script;
}

TEST(MirrorFuzz, RandomScripts) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 1500; ++i) (void)run_mirror_script(random_script(&random));
}

TEST(MirrorFuzz, AnEmptyUpdateIsTaken) {
  std::vector<uint8_t> script{0, 0xff, 0xff};
  script.resize(script.size() + 40);  // exactly an UpdateHeader
  EXPECT_EQ(run_mirror_script(script), 1u);
}

}  // namespace
}  // namespace vgpu::net
