// What vgpud says to wrong and to right command lines.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/lifecycle/server_process.h"

namespace vgpu::testing {
namespace {

struct Folder {
  Folder() {
    char name[] = "/tmp/vgpu-test-XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

TEST(VgpudOptions, HelpTeaches) {
  const Finished help = run_program({VGPUD, "--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* word : {"--listen", "--driver", "--devices", "--guest-devices",
                           "--memory-default", "--metrics", "--scheduler", "Examples", "Signals"}) {
    EXPECT_NE(help.output.find(word), std::string::npos) << word;
  }
}

TEST(VgpudOptions, WrongValuesAreNamed) {
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--listen", "tcp:1.2.3.4"},
                                                        {"--driver", "magic"},
                                                        {"--memory-default", "lots"},
                                                        {"--log-level", "loud"},
                                                        {"--workers-ahead", "65"},
                                                        {"--workers-ahead", "-1"},
                                                        {"--guest-devices", "17"},
                                                        {"--guest-devices", "0"},
                                                        {"--metrics", "here:80"},
                                                        {"--metrics", "65536"},
                                                        {"--scheduler", "lottery"},
                                                        {"--socket-mode", "rw"}}) {
    const Finished run = run_program({VGPUD, option, value});
    EXPECT_NE(run.code, 0) << option;
    EXPECT_NE(run.output.find(value), std::string::npos) << run.output;
  }
}

TEST(VgpudOptions, AConfigurationWithAnUnknownKeyIsRefused) {
  Folder folder;
  const std::string file = folder.path + "/vgpud.toml";
  std::ofstream(file) << "memory_defualt = \"1G\"\n";
  const Finished run = run_program({VGPUD, "--config", file});
  EXPECT_EQ(run.code, 2);
  EXPECT_NE(run.output.find("memory_defualt"), std::string::npos) << run.output;
}

TEST(VgpudOptions, WrongTypesAndRangesInAConfigurationAreNamed) {
  Folder folder;
  const std::string file = folder.path + "/vgpud.toml";
  for (const auto& [line, named] : std::vector<std::pair<std::string, std::string>>{
           {"socket_mode = 0o660", "socket_mode"},
           {"memory_default = 4", "memory_default"},
           {"workers_ahead = \"2\"", "workers_ahead"},
           {"workers_ahead = 65", "65"},
           {"metrics = 19464", "metrics"},
           {"metrics = \"a:b\"", "a:b"},
           {"scheduler = \"lottery\"", "lottery"},
           {"devices = 2", "devices"},
           {"guest_devices = \"all\"", "guest_devices"},
           {"guest_devices = 17", "17"},
           {"workers_ahead = -1", "-1"}}) {
    std::ofstream(file) << line << "\n";
    const Finished run = run_program({VGPUD, "--config", file, "--driver", "none of these"});
    EXPECT_EQ(run.code, 2);
    EXPECT_NE(run.output.find(named), std::string::npos) << line << ": " << run.output;
  }
}

TEST(VgpudOptions, AConfigurationCanBeCheckedWithoutAServer) {
  Folder folder;
  const std::string file = folder.path + "/vgpud.toml";
  std::ofstream(file) << "[profile.small]\nmemory = \"2G\"\n[tenant.alice]\nuids = [1000]\n";
  const Finished good = run_program({VGPUD, "--config", file, "--check-config"});
  EXPECT_EQ(good.code, 0);
  EXPECT_NE(good.output.find("profile small: isolated, 2 GiB"), std::string::npos) << good.output;
  EXPECT_NE(good.output.find("tenant alice: 1 users"), std::string::npos) << good.output;
  std::ofstream(file) << "[profile.small]\nweight = 0\n";
  const Finished bad = run_program({VGPUD, "--config", file, "--check-config"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.output.find("vgpud.toml:2: profile 'small': 'weight'"), std::string::npos)
      << bad.output;
  const Finished example =
      run_program({VGPUD, "--config", EXAMPLE_CONFIGURATION, "--check-config"});
  EXPECT_EQ(example.code, 0) << example.output;
}

TEST(VgpudOptions, RefusesToRunUnderTheGuestLibrary) {
  Folder folder;
  // What marks the guest library is in its text; nothing else of it is needed here.
  const std::string library = folder.path + "/libcuda.so.1";
  std::ofstream(library) << "text VGPU_SERVER" << '\0' << "more";
  const Finished run = run_program({VGPUD, "--driver", "soft"}, {"LD_LIBRARY_PATH=" + folder.path});
  EXPECT_EQ(run.code, 2);
  EXPECT_NE(run.output.find(library), std::string::npos) << run.output;
}

TEST(VgpudOptions, AListThatNamesNoDeviceEndsTheServerWithAReason) {
  Folder folder;
  const Finished run = run_program(
      {VGPUD, "--listen", "unix:" + folder.path + "/s", "--driver", "soft", "--devices", "7"});
  EXPECT_EQ(run.code, 1);
  EXPECT_NE(run.output.find("'7' names none"), std::string::npos) << run.output;
}

TEST(VgpudOptions, ADriverThatIsNoneEndsTheServerWithAReason) {
  Folder folder;
  const std::string path = folder.path + "/libcuda.so.1";
  std::ofstream(path) << "not a library";
  const Finished run =
      run_program({VGPUD, "--listen", "unix:" + folder.path + "/s", "--driver", path});
  EXPECT_EQ(run.code, 1);
  EXPECT_NE(run.output.find(path), std::string::npos) << run.output;
}

}  // namespace
}  // namespace vgpu::testing
