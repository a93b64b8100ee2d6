// Every input that is kept runs through its fuzzer's engine in every build.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
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
  if (!std::filesystem::exists(folder)) return found;  // nothing of its kind is kept
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    found.push_back(
        {entry.path().filename(), std::string(std::istreambuf_iterator<char>(file), {})});
  }
  return found;
}

// Guests that name what their driver chose: variables of modules, which in the double lie
// elsewhere, and surfaces, whose numbers depend on when the ones before have gone.
const std::set<std::string> kDriversChoice = {"recorded-driver_ptx", "recorded-managed",
                                              "recorded-surfaces"};

TEST(Corpus, Sessions) {
  DriverTable driver;
  ASSERT_EQ(load_driver_table(MEMORY_DRIVER, &driver), nullptr);
  int recorded = 0;
  for (const Input& input : inputs(FUZZ_CORPUS "/session")) {
    SCOPED_TRACE(input.name);
    const auto* bytes = reinterpret_cast<const uint8_t*>(input.bytes.data());
    const ScriptResult result = run_session_script(&driver, {bytes, input.bytes.size()});
    EXPECT_GT(result.records, 0u);
    if (input.name.rfind("recorded-", 0) != 0) continue;
    ++recorded;
    // Real guests break no rule; when one seems to, records have changed their layout.
    EXPECT_TRUE(!result.malformed || kDriversChoice.count(input.name) != 0)
        << "run tests/fuzz/record_sessions.py again";
  }
  EXPECT_GT(recorded, 0);
}

TEST(Corpus, Images) {
  for (const Input& input : inputs(FUZZ_CORPUS "/image")) {
    SCOPED_TRACE(input.name);
    const auto* bytes = reinterpret_cast<const uint8_t*>(input.bytes.data());
    (void)cudart::run_image_script({bytes, input.bytes.size()});
  }
  for (const std::string& seed : cudart::image_seeds()) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(seed.data());
    EXPECT_TRUE(cudart::run_image_script({bytes, seed.size()}));
  }
}

TEST(Corpus, Ptx) {
  int texts = 0;
  for (const char* folder : {FUZZ_CORPUS "/ptx", KERNELS_FOLDER}) {
    for (const Input& input : inputs(folder)) {
      SCOPED_TRACE(input.name);
      const bool accepted = softgpu::run_ptx_script(input.bytes);
      // The rest is other files beside the kernels, and what a fuzzer has found.
      const bool is_ptx =
          input.name.ends_with(".ptx") || input.name == "conformance" || input.name == "registered";
      EXPECT_TRUE(accepted || !is_ptx);
      texts += is_ptx ? 1 : 0;
    }
  }
  EXPECT_GT(texts, 0);
}

}  // namespace
}  // namespace vgpu::testing
