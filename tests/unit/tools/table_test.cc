// Tables line up and numbers read well.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/table.h"

#include <gtest/gtest.h>

namespace vgpu::tools {
namespace {

TEST(TableTest, ColumnsLineUp) {
  Table table({{"name", Table::Align::kLeft}, {"time"}});
  table.add({"a", "1 ns"});
  table.add({"größer", "100 ns"});
  table.add({"no time"});
  EXPECT_EQ(table.text(),
            "  name        time\n"
            "  -------   ------\n"
            "  a           1 ns\n"
            "  größer    100 ns\n"
            "  no time\n");
}

TEST(TableTest, Sizes) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(uint64_t{512} << 20), "512 MiB");
  EXPECT_EQ(bytes_text(uint64_t{8} << 40), "8 TiB");
}

TEST(TableTest, Durations) {
  EXPECT_EQ(duration_text(58.25), "58.2 ns");
  EXPECT_EQ(duration_text(480), "480 ns");
  EXPECT_EQ(duration_text(1310), "1.31 us");
  EXPECT_EQ(duration_text(4.2e6), "4.20 ms");
  EXPECT_EQ(duration_text(250e6), "250 ms");
  EXPECT_EQ(duration_text(1.5e9), "1.50 s");
}

TEST(TableTest, Ages) {
  EXPECT_EQ(age_text(900), "0 s");
  EXPECT_EQ(age_text(65'000), "65 s");
  EXPECT_EQ(age_text(600'000), "10 min");
  EXPECT_EQ(age_text(7'500'000), "2 h 05 min");
}

}  // namespace
}  // namespace vgpu::tools
