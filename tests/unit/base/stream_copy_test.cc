// Every alignment and length gives what memcpy gives, and nothing else is touched.
// SPDX-License-Identifier: Apache-2.0
#include "base/stream_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace vgpu {
namespace {

TEST(StreamCopy, CopiesExactlyTheBytes) {
  constexpr size_t kRoom = 1024;
  std::vector<unsigned char> from(kRoom), got(kRoom), wanted(kRoom);
  for (size_t i = 0; i < kRoom; ++i) from[i] = static_cast<unsigned char>(i * 7 + 1);
  for (size_t target = 0; target < 66; target += 3) {
    for (size_t source = 0; source < 20; source += 7) {
      for (size_t bytes : {0, 1, 15, 63, 64, 65, 127, 128, 200, 640, 900}) {
        std::fill(got.begin(), got.end(), 0xee);
        std::fill(wanted.begin(), wanted.end(), 0xee);
        stream_copy(got.data() + target, from.data() + source, bytes);
        std::memcpy(wanted.data() + target, from.data() + source, bytes);
        ASSERT_EQ(got, wanted) << target << " " << source << " " << bytes;
        std::fill(got.begin(), got.end(), 0xee);
        line_copy(got.data() + target, from.data() + source, bytes);
        ASSERT_EQ(got, wanted) << target << " " << source << " " << bytes;
      }
    }
  }
}

}  // namespace
}  // namespace vgpu
