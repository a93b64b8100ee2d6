// Lists of devices.
// SPDX-License-Identifier: Apache-2.0
#include "api/visible_devices.h"

#include <gtest/gtest.h>

namespace vgpu {
namespace {

const std::vector<std::string> kUuids = {"GPU-00112233-4455-6677-8899-aabbccddeeff",
                                         "GPU-00112233-4455-6677-8899-aabbccddeef0",
                                         "GPU-ff112233-4455-6677-8899-aabbccddeeff"};
using List = std::vector<int>;

TEST(VisibleDevices, AllWithoutAList) {
  EXPECT_EQ(visible_devices(nullptr, kUuids), (List{0, 1, 2}));
}

TEST(VisibleDevices, NumbersInTheirOrder) {
  EXPECT_EQ(visible_devices("2,0", kUuids), (List{2, 0}));
  EXPECT_EQ(visible_devices(" 1 , 2", kUuids), (List{1, 2}));
}

TEST(VisibleDevices, TheFirstThatIsNoneEndsIt) {
  EXPECT_EQ(visible_devices("", kUuids), List());
  EXPECT_EQ(visible_devices("-1", kUuids), List());
  EXPECT_EQ(visible_devices("1,3,0", kUuids), List{1});
  EXPECT_EQ(visible_devices("1,,0", kUuids), List{1});
  EXPECT_EQ(visible_devices("0,nonsense,1", kUuids), List{0});
}

TEST(VisibleDevices, OneTwiceHidesAll) { EXPECT_EQ(visible_devices("0,1,0", kUuids), List()); }

TEST(VisibleDevices, BeginningsOfUuids) {
  EXPECT_EQ(visible_devices("GPU-ff", kUuids), List{2});
  EXPECT_EQ(visible_devices("GPU-0011", kUuids), List()) << "two begin so";
  EXPECT_EQ(visible_devices(kUuids[1].c_str(), kUuids), List{1});
  EXPECT_EQ(visible_devices("GPU-", kUuids), List());
}

TEST(VisibleDevices, UuidText) {
  const unsigned char bytes[16] = {0xff, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                   0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
  EXPECT_EQ(device_uuid_text(bytes), kUuids[2]);
}

}  // namespace
}  // namespace vgpu
