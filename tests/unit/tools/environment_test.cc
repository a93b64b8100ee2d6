// What a guest's environment looks like, and where parts are looked for.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace vgpu::tools {
namespace {

Places some_places() {
  Places places;
  places.guest_library = "/v/guest/libcuda.so.1";
  places.soft_library = "/v/softgpu/libcuda.so.1";
  return places;
}

TEST(Environment, GuestLibraryComesFirstAndTheRestStays) {
  const Environment base = {{"LD_PRELOAD", "/x/libother.so"}, {"LD_LIBRARY_PATH", "/x:/y"}};
  Environment guest = guest_environment(
      base, {"unix:/s", "1024", "alice", "/tmp/s.json", "1,0", "small", "300", "50", "spot", "/t"},
      some_places());
  EXPECT_EQ(guest.at("VGPU_PROFILE"), "small");
  EXPECT_EQ(guest.at("VGPU_SHARE"), "300");
  EXPECT_EQ(guest.at("VGPU_CAP"), "50");
  EXPECT_EQ(guest.at("VGPU_PRIORITY"), "spot");
  EXPECT_EQ(guest.at("VGPU_TOKEN_FILE"), "/t");
  EXPECT_EQ(guest["LD_PRELOAD"], "/v/guest/libcuda.so.1:/x/libother.so");
  EXPECT_EQ(guest["LD_LIBRARY_PATH"], "/v/guest:/x:/y");
  EXPECT_EQ(guest["VGPU_SERVER"], "unix:/s");
  EXPECT_EQ(guest["VGPU_MEM"], "1024");
  EXPECT_EQ(guest["VGPU_NAME"], "alice");
  EXPECT_EQ(guest["VGPU_STATS"], "/tmp/s.json");
  EXPECT_EQ(guest["VGPU_DEVICES"], "1,0");
}

TEST(Environment, WhatIsNotGivenStaysAsItWas) {
  const Environment guest = guest_environment({{"VGPU_NAME", "bob"}}, {}, some_places());
  EXPECT_EQ(guest.at("VGPU_NAME"), "bob");
  EXPECT_EQ(guest.count("VGPU_SERVER"), 0U);
  EXPECT_EQ(guest.count("VGPU_STATS"), 0U);
}

TEST(Environment, OneOfOursReplacesTheOther) {
  const Places places = some_places();
  const Environment guest = guest_environment({}, {}, places);
  Environment direct = direct_environment(guest, places);
  EXPECT_EQ(direct["LD_PRELOAD"], "/v/softgpu/libcuda.so.1");
  EXPECT_EQ(direct["LD_LIBRARY_PATH"], "/v/softgpu");
  EXPECT_EQ(guest_environment(direct, {}, places), guest);
}

TEST(Environment, AServerGetsNeither) {
  const Places places = some_places();
  const Environment base = {{"LD_PRELOAD", "/x.so /v/guest/libcuda.so.1"}, {"PATH", "/bin"}};
  Environment server = server_environment(base, places);
  EXPECT_EQ(server["LD_PRELOAD"], "/x.so");
  EXPECT_EQ(server.count("LD_LIBRARY_PATH"), 0U);
  EXPECT_EQ(server["PATH"], "/bin");
}

class PlacesTest : public testing::Test {
 protected:
  PlacesTest() {
    std::string pattern = testing::TempDir() + "/vgpu-places-abc" + std::string(6, 'X');
    root_ = std::filesystem::canonical(::mkdtemp(pattern.data())).string();
    std::filesystem::create_directories(root_ + "/bin");
  }
  ~PlacesTest() override { std::filesystem::remove_all(root_); }
  void touch(const std::string& name) {
    std::filesystem::create_directories(folder_of(root_ + "/" + name));
    std::ofstream(root_ + "/" + name) << "x";
  }
  std::string root_;
};

TEST_F(PlacesTest, NothingIsThere) {
  const Places places = find_places(root_ + "/bin");
  EXPECT_EQ(places.guest_library, "");
  EXPECT_EQ(places.server, "");
}

TEST_F(PlacesTest, BuildTreeThenInstallTree) {
  touch("lib/vgpu/guest/libcuda.so.1");
  touch("bin/vgpud");
  EXPECT_EQ(find_places(root_ + "/bin").guest_library, root_ + "/lib/vgpu/guest/libcuda.so.1");
  EXPECT_EQ(find_places(root_ + "/bin").server, root_ + "/bin/vgpud");
  touch("lib/guest/libcuda.so.1");
  EXPECT_EQ(find_places(root_ + "/bin").guest_library, root_ + "/lib/guest/libcuda.so.1");
}

TEST_F(PlacesTest, AppsByNameAndByPath) {
  touch("tests/apps/vecadd");
  EXPECT_EQ(find_app("vecadd", root_ + "/bin"), root_ + "/tests/apps/vecadd");
  EXPECT_EQ(find_app("nothing", root_ + "/bin"), "");
  EXPECT_EQ(find_app("/bin/sh"), std::filesystem::canonical("/bin/sh").string());
  EXPECT_EQ(find_app("/bin/no-such-program"), "");
}

}  // namespace
}  // namespace vgpu::tools
