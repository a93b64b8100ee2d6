// Finding programs, and which of them can be guests.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace vgpu::tools {
namespace {

using testing::HasSubstr;

class RunTest : public testing::Test {
 protected:
  RunTest() {
    std::string pattern = testing::TempDir() + "/vgpu-run-abc" + std::string(6, 'X');
    root_ = ::mkdtemp(pattern.data());
  }
  ~RunTest() override { std::filesystem::remove_all(root_); }
  std::string write(const std::string& name, const std::string& content, mode_t mode) {
    const std::string path = root_ + "/" + name;
    std::ofstream(path) << content;
    ::chmod(path.c_str(), mode);
    return path;
  }
  std::string root_;
  bool denied_ = false;
};

TEST_F(RunTest, ProgramsAreFoundAsTheShellFindsThem) {
  const std::string tool = write("tool", "#!/bin/sh\n", 0755);
  EXPECT_EQ(find_executable("tool", "/nowhere:" + root_, &denied_), tool);
  EXPECT_EQ(find_executable(tool, "", &denied_), tool);
  EXPECT_EQ(find_executable("tool", "/nowhere", &denied_), "");
  EXPECT_EQ(find_executable(root_, "", &denied_), "");  // a folder is no program
  EXPECT_FALSE(denied_);
}

TEST_F(RunTest, AFileWithoutPermissionIsToldApart) {
  const std::string plain = write("plain", "x", 0644);
  EXPECT_EQ(find_executable(plain, "", &denied_), "");
  EXPECT_TRUE(denied_);
}

TEST_F(RunTest, OrdinaryProgramsAndScriptsHaveNoObstacle) {
  EXPECT_EQ(preload_obstacle("/bin/ls"), "");
  EXPECT_EQ(preload_obstacle(write("script", "#!/bin/sh\n", 0755)), "");
  EXPECT_EQ(preload_obstacle(write("empty", "", 0755)), "");
}

TEST_F(RunTest, StaticAndForeignProgramsAreRecognised) {
  std::string head(64, '\0');
  head.replace(0, 7, "\177ELF\2\1\1");
  head[16] = 2;                      // executable
  head[18] = static_cast<char>(62);  // x86-64
  head[54] = 56;                     // size of a program header; there are none: no loader
#if defined(__x86_64__)
  EXPECT_THAT(preload_obstacle(write("static", head, 0755)), HasSubstr("statically linked"));
#endif
  head[18] = 8;  // MIPS
  EXPECT_THAT(preload_obstacle(write("foreign", head, 0755)), HasSubstr("another kind"));
}

}  // namespace
}  // namespace vgpu::tools
