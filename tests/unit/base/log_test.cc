// The logger is silent unless asked, and writes whole lines.
// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace vgpu {
namespace {

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "vgpu_log_test_" + std::to_string(::getpid());
    ::setenv("VGPU_LOG_FILE", path_.c_str(), 1);
  }
  void TearDown() override {
    set_log_level(LogLevel::kOff);
    ::unsetenv("VGPU_LOG_FILE");
    std::remove(path_.c_str());
  }
  std::string written() const {
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::string path_;
};

TEST_F(LogTest, OffWritesNothing) {
  set_log_level(LogLevel::kOff);
  int evaluated = 0;
  VGPU_LOG_ERROR("value %d", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  EXPECT_FALSE(std::ifstream(path_).is_open());
}

TEST_F(LogTest, WritesItsLevelAndAbove) {
  set_log_level(LogLevel::kWarn);
  errno = 7;
  VGPU_LOG_ERROR("first %d", 1);
  VGPU_LOG_WARN("second");
  VGPU_LOG_INFO("third");
  EXPECT_EQ(errno, 7);
  const std::string text = written();
  EXPECT_EQ(text.rfind("vgpu: error [", 0), 0U);
  EXPECT_NE(text.find("] first 1\n"), std::string::npos);
  EXPECT_NE(text.find("] second\n"), std::string::npos);
  EXPECT_EQ(text.find("third"), std::string::npos);
}

TEST_F(LogTest, LongLinesAreCut) {
  set_log_level(LogLevel::kDebug);
  const std::string text(5000, 'x');
  VGPU_LOG_DEBUG("%s", text.c_str());
  const std::string line = written();
  EXPECT_EQ(line.size(), static_cast<size_t>(kLogLineBytesMax));
  EXPECT_EQ(line.substr(line.size() - 4), "...\n");
}

TEST_F(LogTest, OncePerKey) {
  set_log_level(LogLevel::kError);
  for (int i = 0; i < 3; ++i) log_once("LogTest.a", LogLevel::kError, "not served: %s", "a");
  log_once("LogTest.b", LogLevel::kError, "not served: %s", "b");
  std::istringstream lines(written());
  int count = 0;
  for (std::string line; std::getline(lines, line);) ++count;
  EXPECT_EQ(count, 2);
}

TEST_F(LogTest, LevelsByName) {
  EXPECT_EQ(parse_log_level("debug"), LogLevel::kDebug);
  EXPECT_EQ(parse_log_level("verbose"), LogLevel::kOff);
}

}  // namespace
}  // namespace vgpu
