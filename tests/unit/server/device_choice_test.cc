// Which devices a guest gets, by everybody's lists.
// SPDX-License-Identifier: Apache-2.0
#include "server/device_choice.h"

#include <gtest/gtest.h>

#include "api/visible_devices.h"

namespace vgpu::server {
namespace {

using Places = std::vector<uint32_t>;

// Four devices, whose PCI addresses run against their numbers.
class DeviceChoice : public testing::Test {
 protected:
  DeviceChoice() {
    for (int i = 0; i < 4; ++i) {
      DeviceIdentity& each = served_.emplace_back();
      each.uuid.fill(static_cast<uint8_t>(0x10 * (i + 1)));
      each.pci_bus_id = "0000:0" + std::to_string(9 - i) + ":00.0";
    }
  }
  Places choose(const Places& offered = {}) {
    const auto chosen = choose_devices(served_, offered, hello_);
    status_ = chosen.ok() ? ok_status() : chosen.status();
    return chosen.ok() ? *chosen : Places{};
  }
  void see(const std::string& list) {
    hello_.visible_devices = list;
    hello_.flags |= protocol::kHelloDevicesListed;
  }
  std::string uuid(size_t device) const { return device_uuid_text(served_[device].uuid.data()); }

  std::vector<DeviceIdentity> served_;
  protocol::Hello hello_;
  Status status_;
};

TEST_F(DeviceChoice, WhoNamesNoneGetsWhatIsOffered) {
  EXPECT_EQ(choose(), (Places{0, 1, 2, 3}));
  EXPECT_EQ(choose({2}), (Places{2}));
}

TEST_F(DeviceChoice, EachListCountsInTheOneBefore) {
  hello_.devices = "3,1,0";
  EXPECT_EQ(choose(), (Places{3, 1, 0}));
  see("2,0");
  EXPECT_EQ(choose(), (Places{0, 3}));
  see(uuid(1));
  EXPECT_EQ(choose(), (Places{1}));
  see(uuid(2));
  EXPECT_EQ(choose(), Places{}) << "not among those that VGPU_DEVICES has left";
}

TEST_F(DeviceChoice, NativeRulesHold) {
  see("1,9,0");
  EXPECT_EQ(choose(), (Places{1})) << "the list ends at what names none";
  see("1,1");
  EXPECT_EQ(choose(), Places{});
  see("");
  EXPECT_EQ(choose(), Places{});
  EXPECT_EQ(status_.code(), StatusCode::kNotFound);
  EXPECT_NE(status_.text().find("CUDA_VISIBLE_DEVICES"), std::string::npos);
  hello_.flags = 0;
  EXPECT_EQ(choose().size(), 4U) << "an empty list that nobody has given";
}

TEST_F(DeviceChoice, PciOrderComesBeforeWhatIsSeen) {
  hello_.flags = protocol::kHelloPciOrder;
  EXPECT_EQ(choose(), (Places{3, 2, 1, 0}));
  see("0,1");
  EXPECT_EQ(choose(), (Places{3, 2}));
  hello_.devices = "0,3,1";
  see("2");
  EXPECT_EQ(choose(), (Places{0})) << "the server's numbers are the server's, then it is sorted";
  hello_.devices.clear();
  served_[2].pci_bus_id = "?";
  hello_.flags = protocol::kHelloPciOrder;
  EXPECT_EQ(choose(), (Places{3, 1, 0, 2})) << "what has no address comes last";
}

TEST_F(DeviceChoice, TheServersListMustNameSome) {
  EXPECT_EQ(*list_devices(served_, ""), (Places{0, 1, 2, 3}));
  EXPECT_EQ(*list_devices(served_, "2," + uuid(0)), (Places{2, 0}));
  EXPECT_FALSE(list_devices(served_, "7").ok());
  hello_.devices = "nonsense";
  EXPECT_EQ(choose(), Places{});
  EXPECT_NE(status_.text().find("VGPU_DEVICES"), std::string::npos);
}

}  // namespace
}  // namespace vgpu::server
