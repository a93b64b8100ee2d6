// Every input that is kept runs through its fuzzer's engine in every build.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "api/driver_loader.h"
#include "tests/fuzz/image_script.h"
#include "tests/fuzz/ptx_script.h"
#include "tests/fuzz/session_script.h"

namespace vgpu::testing {
namespace {

struct Input {
  std::string name;
  std::string bytes;
};

std::vector<Input> inputs(const std::string& folder) {
  std::vector<Input> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    found.push_back(
        {entry.path().filename(), std::string(std::istreambuf_iterator<char>(file), {})});
  }
  return found;
}

TEST(Corpus, Sessions) {
  DriverTable driver;
  ASSERT_EQ(load_driver_table(MEMORY_DRIVER, &driver), nullptr);
  int recorded = 0, whole = 0;
  for (const Input& input : inputs(FUZZ_CORPUS "/session")) {
    SCOPED_TRACE(input.name);
    const auto* bytes = reinterpret_cast<const uint8_t*>(input.bytes.data());
    const ScriptResult result = run_session_script(&driver, {bytes, input.bytes.size()});
    EXPECT_GT(result.records, 0u);
    if (input.name.rfind("recorded-", 0) != 0) continue;
    ++recorded;
    whole += result.malformed ? 0 : 1;
    if (result.malformed) std::printf("%s: broke a rule\n", input.name.c_str());
  }
  // Real guests break no rule; when they all seem to, records have changed their layout.
  EXPECT_GT(recorded, 0);
  EXPECT_GT(whole * 2, recorded) << "run tests/fuzz/record_sessions.py again";
}

TEST(Corpus, Images) {
  int accepted = 0;
  for (const Input& input : inputs(FUZZ_CORPUS "/image")) {
    SCOPED_TRACE(input.name);
    const auto* bytes = reinterpret_cast<const uint8_t*>(input.bytes.data());
    accepted += cudart::run_image_script({bytes, input.bytes.size()}) ? 1 : 0;
  }
  EXPECT_GT(accepted, 0);
  for (const std::string& seed : cudart::image_seeds()) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(seed.data());
    EXPECT_TRUE(cudart::run_image_script({bytes, seed.size()}));
  }
}

TEST(Corpus, Ptx) {
  int accepted = 0;
  for (const char* folder : {FUZZ_CORPUS "/ptx", KERNELS_FOLDER}) {
    for (const Input& input : inputs(folder)) {
      SCOPED_TRACE(input.name);
      accepted += softgpu::run_ptx_script(input.bytes) ? 1 : 0;
    }
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace vgpu::testing
