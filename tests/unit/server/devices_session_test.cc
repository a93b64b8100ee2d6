// A session with several devices, whose guest may be hostile: numbers are checked, memory and quota
// are each device's own. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "api/driver_loader.h"
#include "server/serve.h"
#include "tests/support/guest.h"

namespace vgpu::server {
namespace {

using testing::Guest;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kGrants[] = {64 * kMiB, 32 * kMiB};
const uint64_t kSecondContext = SlotId::make(1, 1, 1);

class DevicesSession : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("MEMORY_DRIVER_DEVICES", "3", 1);
    ASSERT_EQ(load_driver_table(MEMORY_DRIVER, &driver_), nullptr);
    auto opened = Devices::open(&driver_);
    unsetenv("MEMORY_DRIVER_DEVICES");
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    devices_ = std::make_unique<Devices>(std::move(*opened));
    ASSERT_EQ(devices_->count(), 3U);
    devices_->reserve_ahead();
    ASSERT_TRUE(devices_->grant({{2, kGrants[0]}, {0, kGrants[1]}}).ok());
    hello_ = make_reply(devices_.get(), testing::test_hello(), 1, "test");
    auto pair = protocol::make_loop(hello_.sizes);
    ASSERT_TRUE(pair.ok());
    worker_ = std::move(protocol::WorkerChannel::create(std::move(pair->worker)).value());
    channel_ = std::move(protocol::GuestChannel::open(std::move(pair->guest)).value());
    guest_ = std::make_unique<Guest>(channel_.get());
    thread_ = std::thread([this] {
      end_ = serve_guest(&driver_, devices_.get(), hello_, worker_.get(), {.page = &page_});
    });
    guest_->enter_context();
  }
  void TearDown() override {
    worker_->mark_dead();
    if (thread_.joinable()) thread_.join();
    const protocol::AddressRange range = hello_.device_range;
    if (range.bytes != 0) driver_.cuMemAddressFree(range.base, range.bytes);
  }
  int open(uint32_t device) {
    wire::DeviceOpenArgs args;
    args.device = device;
    return guest_->call(Op::kDeviceOpen, args);
  }
  void retain(uint32_t device, uint64_t id, uint32_t slot) {
    wire::PrimaryRetainArgs args;
    args.device = device;
    args.context = id;
    args.slot = slot;
    guest_->post(Op::kPrimaryRetain, args);
  }
  int credit(uint32_t device, uint64_t bytes) {
    wire::MemCreditArgs args;
    args.device = device;
    args.bytes = bytes;
    return guest_->call(Op::kMemCredit, args);
  }
  uint64_t base(size_t device) const {
    return protocol::range_of_device(hello_.device_range, device, 2).base;
  }
  void map(uint32_t device, uint64_t address, uint64_t bytes) {
    wire::MemMapArgs args;
    args.device = device;
    args.address = address;
    args.bytes = bytes;
    guest_->post(Op::kMemMap, args);
  }
  uint64_t reserved_base() const { return protocol::range_to_reserve(hello_.device_range).base; }
  int create_physical(uint32_t device, uint64_t handle, uint64_t bytes) {
    wire::PhysicalCreateArgs args;
    args.handle = handle;
    args.bytes = bytes;
    args.device = device;
    return guest_->call(Op::kPhysicalCreate, args);
  }
  // All of its quota has become credit as soon as it was open.
  void return_credit(uint32_t device) {
    wire::CreditReturnArgs args;
    args.device = device;
    args.bytes = kGrants[device];
    guest_->post(Op::kCreditReturn, args);
  }
  void map_physical(uint64_t handle, uint64_t address) {
    wire::PhysicalMapArgs args;
    args.handle = handle;
    args.address = address;
    guest_->post(Op::kPhysicalMap, args);
  }
  void allow(uint32_t device, uint64_t address, uint64_t bytes, uint32_t flags) {
    wire::PhysicalAccessArgs args;
    args.address = address;
    args.bytes = bytes;
    args.flags = flags;
    args.device = device;
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      guest_->post(Op::kPhysicalAccess, args);
    } else {
      EXPECT_EQ(guest_->call(Op::kPhysicalAccess, args), 0);
    }
  }
  bool reserved() const { return hello_.device_range.bytes != 0; }
  void expect_malformed() {
    thread_.join();
    EXPECT_EQ(end_, SessionEnd::kMalformed);
  }

  DriverTable driver_;
  std::unique_ptr<Devices> devices_;
  protocol::HelloReply hello_;
  std::unique_ptr<protocol::WorkerChannel> worker_;
  std::unique_ptr<protocol::GuestChannel> channel_;
  std::unique_ptr<Guest> guest_;
  WorkerPage page_{};
  SessionEnd end_ = SessionEnd::kGuestGone;
  std::thread thread_;
};

TEST_F(DevicesSession, TheGuestsOrderIsKept) {
  ASSERT_EQ(hello_.devices.size(), 2U);
  EXPECT_EQ(hello_.devices[0].pci_bus_id, "0000:09:00.0");
  EXPECT_EQ(hello_.devices[1].pci_bus_id, "0000:07:00.0");
  EXPECT_EQ(hello_.devices[0].memory_bytes, kGrants[0]);
  EXPECT_EQ(hello_.devices[1].memory_bytes, kGrants[1]);
  EXPECT_EQ(hello_.memory_bytes, kGrants[0]);
}

TEST_F(DevicesSession, CopiesGoBetweenDevices) {
  if (!reserved()) GTEST_SKIP() << "no address range in this process (TSan)";
  ASSERT_EQ(open(1), 0);
  EXPECT_EQ(open(1), 0) << "again";
  ASSERT_EQ(credit(0, 2 * kMiB), 0);
  ASSERT_EQ(credit(1, 2 * kMiB), 0);
  map(0, base(0), 2 * kMiB);
  map(1, base(1), 2 * kMiB);
  guest_->write_inline(base(1) + 8, "over there");
  wire::CopyDeviceArgs copy;
  copy.destination = base(0);
  copy.source = base(1) + 8;
  copy.bytes = 10;
  copy.stream = 1;
  guest_->post(Op::kCopyDevice, copy);
  EXPECT_EQ(guest_->read(base(0), 10), "over there");
  EXPECT_EQ(guest_->read(base(1) + 8, 4), "over");
}

TEST_F(DevicesSession, EachQuotaIsItsOwn) {
  if (!reserved()) GTEST_SKIP() << "no address range in this process (TSan)";
  EXPECT_EQ(credit(1, kGrants[1] + kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(credit(1, kGrants[1]), 0);
  EXPECT_EQ(credit(0, kGrants[0]), 0);
  EXPECT_EQ(channel_->semaphores().credit(1), kGrants[1]);
  EXPECT_EQ(page_.used_bytes[1].load(), kGrants[1]);
}

TEST_F(DevicesSession, MemoryIsMappedOnlyInItsDevicesPart) {
  if (!reserved()) GTEST_SKIP() << "no address range in this process (TSan)";
  ASSERT_EQ(credit(1, 2 * kMiB), 0);
  map(1, base(0), 2 * kMiB);
  expect_malformed();
}

TEST_F(DevicesSession, PhysicalMemoryIsOfItsDevice) {
  if (!reserved()) GTEST_SKIP() << "no address range in this process (TSan)";
  ASSERT_EQ(open(1), 0);
  return_credit(0);
  return_credit(1);
  const uint64_t handle = SlotId::make(1, 1, 1), rest = SlotId::make(1, 1, 2);
  ASSERT_EQ(create_physical(1, handle, kGrants[1]), 0);
  EXPECT_EQ(create_physical(1, rest, 2 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(create_physical(0, rest, 2 * kMiB), 0) << "the other has its own quota";
  map_physical(handle, reserved_base());
  allow(0, reserved_base(), kGrants[1], CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  allow(1, reserved_base(), kGrants[1], CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  allow(0, reserved_base(), kGrants[1], CU_MEM_ACCESS_FLAGS_PROT_NONE);
  guest_->write_inline(reserved_base() + 8, "the other may");
  EXPECT_EQ(guest_->read(reserved_base() + 8, 13), "the other may");
  allow(1, reserved_base(), kGrants[1], CU_MEM_ACCESS_FLAGS_PROT_NONE);
  guest_->write_inline(reserved_base(), "nobody may");
  expect_malformed();
}

TEST_F(DevicesSession, PhysicalMemoryOfNoDevice) {
  wire::PhysicalCreateArgs args;
  args.handle = SlotId::make(1, 1, 1);
  args.bytes = 2 * kMiB;
  args.device = 2;
  guest_->post(Op::kPhysicalCreate, args);
  expect_malformed();
}

TEST_F(DevicesSession, AccessToPhysicalMemoryForNoDevice) {
  if (!reserved()) GTEST_SKIP() << "no address range in this process (TSan)";
  return_credit(0);
  const uint64_t handle = SlotId::make(1, 1, 1);
  ASSERT_EQ(create_physical(0, handle, 2 * kMiB), 0);
  map_physical(handle, reserved_base());
  allow(2, reserved_base(), 2 * kMiB, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  expect_malformed();
}

TEST_F(DevicesSession, PhysicalMemoryIsMappedInTheReservedPartOnly) {
  if (!reserved()) GTEST_SKIP() << "no address range in this process (TSan)";
  return_credit(0);
  const uint64_t handle = SlotId::make(1, 1, 1);
  ASSERT_EQ(create_physical(0, handle, 2 * kMiB), 0);
  map_physical(handle, base(1));
  expect_malformed();
}

TEST_F(DevicesSession, OpeningADeviceThatIsNotTheGuests) {
  wire::DeviceOpenArgs args;
  args.device = 2;
  guest_->post(Op::kDeviceOpen, args);
  expect_malformed();
}

TEST_F(DevicesSession, CreditOfNoDevice) {
  wire::MemCreditArgs args;
  args.device = 0x80000000;
  guest_->post(Op::kMemCredit, args);
  expect_malformed();
}

TEST_F(DevicesSession, APrimaryContextBeforeTheDeviceIsOpen) {
  retain(1, kSecondContext, 1);
  expect_malformed();
}

TEST_F(DevicesSession, ASecondPrimaryContextOfADevice) {
  ASSERT_EQ(open(1), 0);
  retain(1, kSecondContext, 1);
  EXPECT_EQ(guest_->synchronize(), 0);
  retain(1, SlotId::make(1, 1, 2), 2);
  expect_malformed();
}

TEST_F(DevicesSession, AContextOfNoDevice) {
  wire::ContextCreateArgs args;
  args.context = kSecondContext;
  args.device = ~0u;
  args.slot = 1;
  guest_->post(Op::kContextCreate, args);
  expect_malformed();
}

TEST_F(DevicesSession, AccessOfADeviceToItself) {
  wire::MemAccessArgs args;
  args.device = args.peer = 1;
  guest_->post(Op::kMemAccess, args);
  expect_malformed();
}

TEST_F(DevicesSession, AccessByContextsIsCountedAndEndsWithThem) {
  ASSERT_EQ(open(1), 0);
  retain(1, kSecondContext, 1);
  wire::PeerAccessArgs args;
  args.context = testing::kContextId;
  args.peer = kSecondContext;
  args.enable = 1;
  EXPECT_EQ(guest_->call(Op::kPeerAccess, args), 0);
  EXPECT_EQ(guest_->call(Op::kPeerAccess, args), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  args.peer = SlotId::make(1, 1, 9);
  EXPECT_EQ(guest_->call(Op::kPeerAccess, args), CUDA_ERROR_INVALID_CONTEXT) << "ended meanwhile";
  args.peer = kSecondContext;
  wire::PrimaryResetArgs reset;
  reset.context = kSecondContext;
  protocol::Reply reply;
  wire::PrimaryResetReply answer;
  EXPECT_EQ(guest_->call(Op::kPrimaryReset, reset, &reply), 0);
  ASSERT_TRUE(reply.get(&answer));
  EXPECT_EQ(answer.closed, reserved() ? 1U : 0U);
  if (answer.closed != 0) {
    ASSERT_EQ(open(1), 0);
  }
  retain(1, kSecondContext, 1);
  EXPECT_EQ(guest_->call(Op::kPeerAccess, args), 0) << "anew, in its next life";
  args.peer = testing::kContextId;
  guest_->post(Op::kPeerAccess, args);
  expect_malformed();
}

TEST_F(DevicesSession, TheFirstDeviceStaysOpen) {
  wire::PrimaryResetArgs reset;
  reset.context = testing::kContextId;
  protocol::Reply reply;
  wire::PrimaryResetReply answer;
  EXPECT_EQ(guest_->call(Op::kPrimaryReset, reset, &reply), 0);
  ASSERT_TRUE(reply.get(&answer));
  EXPECT_EQ(answer.closed, 0U);
}

TEST(DevicesOpen, ListsAndGrantsAreChecked) {
  DriverTable driver;
  setenv("MEMORY_DRIVER_DEVICES", "2", 1);
  ASSERT_EQ(load_driver_table(MEMORY_DRIVER, &driver), nullptr);
  auto one = Devices::open(&driver, "1");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->count(), 1U);
  EXPECT_EQ(one->first().number(), 1);
  EXPECT_FALSE(Devices::open(&driver, "5").ok());
  auto both = Devices::open(&driver);
  unsetenv("MEMORY_DRIVER_DEVICES");
  ASSERT_TRUE(both.ok());
  EXPECT_FALSE(both->grant({{0, kMiB}, {0, kMiB}}).ok()) << "twice the same";
  EXPECT_FALSE(one->grant({}).ok());
  EXPECT_FALSE(one->grant({{1, kMiB}}).ok());
  EXPECT_TRUE(one->grant_all(kMiB).ok());
}

}  // namespace
}  // namespace vgpu::server
