// Control messages: round trip, truncation, mutation, ranges.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/session/messages.h"

#include <gtest/gtest.h>

namespace vgpu::protocol {
namespace {

Hello sample_hello() {
  Hello hello;
  hello.wire_hash = 0x1122334455667788;
  hello.pid = 42;
  hello.executable = "app";
  hello.label = "blue\n\x1b[31m";
  hello.memory_bytes = 1 << 30;
  hello.device_ranges = {{uint64_t{1} << 45, uint64_t{1} << 43}, {uint64_t{7} << 43, 1 << 21}};
  hello.flags = kHelloForwardAllocator;
  hello.shim_version = "0.1";
  hello.devices = "1,0";
  hello.visible_devices = "GPU-0a";
  return hello;
}

HelloReply sample_reply() {
  HelloReply reply;
  reply.wire_hash = 9;
  reply.server_version = "0.1";
  reply.driver = "soft";
  reply.driver_version = 13000;
  reply.session = 77;
  reply.server_pid = 5;
  reply.memory_bytes = 1 << 30;
  reply.device_range = {uint64_t{1} << 45, uint64_t{1} << 43};
  reply.host_range = host_range_behind(reply.device_range);
  DeviceSnapshot device;
  device.name = "Soft GPU";
  device.uuid = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  device.pci_bus_id = "0000:01:00.0";
  device.attributes = {0, 1024, -1};
  device.limits = {1024, uint64_t{1} << 40};
  device.memory_bytes = 1 << 30;
  device.peers = {0, kPeerFactUnknown, 1};
  reply.devices = {device};
  return reply;
}

GuestsReply sample_guests(size_t count) {
  GuestsReply reply;
  reply.draining = true;
  reply.waiting = 3;
  reply.devices.assign(kDevicesMax, {std::string(255, 'd'), std::string(255, 'u'), 3, 2, 1});
  GuestState guest;
  guest.uid = 1000;
  guest.executable = guest.label = guest.tenant = guest.profile = std::string(255, 'n');
  guest.devices.assign(kDevicesMax, kDevicesMax - 1);
  guest.granted_bytes.assign(kDevicesMax, 8);
  guest.used_bytes.assign(kDevicesMax, 7);
  guest.weight = 300;
  guest.cap_permille = 125;
  guest.priority = 3;
  guest.mode = 1;
  guest.kernels = 11;
  guest.copied_bytes[0] = 12;
  guest.copied_bytes[1] = 13;
  guest.refused_allocations = 14;
  for (uint64_t i = 0; i < kEngineFigures; ++i) guest.device_ns[i] = 15 + i;
  guest.wait_ns = 18;
  guest.throttled_ns = UINT64_MAX;
  for (size_t i = 0; i < count; ++i) {
    guest.session = i + 1;
    reply.guests.push_back(guest);
  }
  return reply;
}

template <typename T>
T round_trip(const T& message) {
  Result<Message> decoded = decode_message(encode_message(message));
  EXPECT_TRUE(decoded.ok()) << decoded.status().text();
  const T* got = std::get_if<T>(&decoded.value());
  EXPECT_NE(got, nullptr);
  return *got;
}

template <typename T>
bool refused(const T& message) {
  const Result<Message> decoded = decode_message(encode_message(message));
  return !decoded.ok() && decoded.status().code() == StatusCode::kMalformed;
}

TEST(Messages, HelloSurvives) {
  const Hello hello = round_trip(sample_hello());
  EXPECT_EQ(hello.protocol_version, kProtocolVersion);
  EXPECT_EQ(hello.wire_hash, sample_hello().wire_hash);
  EXPECT_EQ(hello.device_ranges, sample_hello().device_ranges);
  EXPECT_EQ(hello.flags, kHelloForwardAllocator);
  EXPECT_EQ(hello.memory_bytes, sample_hello().memory_bytes);
  EXPECT_EQ(hello.label, "blue??[31m");  // fit for a log
  EXPECT_EQ(hello.devices, "1,0");
  EXPECT_EQ(hello.visible_devices, "GPU-0a");
}

TEST(Messages, ReplySurvives) {
  const HelloReply reply = round_trip(sample_reply());
  ASSERT_EQ(reply.devices.size(), 1u);
  EXPECT_EQ(reply.devices[0].uuid, sample_reply().devices[0].uuid);
  EXPECT_EQ(reply.devices[0].attributes, sample_reply().devices[0].attributes);
  EXPECT_EQ(reply.devices[0].limits, sample_reply().devices[0].limits);
  EXPECT_EQ(reply.devices[0].peers, sample_reply().devices[0].peers);
  EXPECT_EQ(reply.device_range, sample_reply().device_range);
  EXPECT_EQ(reply.host_range, sample_reply().host_range);
  EXPECT_EQ(reply.session, 77u);
  EXPECT_EQ(reply.sizes.ring_bytes, kRingBytesDefault);
}

TEST(Messages, AdminSurvives) {
  InfoReply info;
  info.driver = "soft";
  info.devices = {{"d", 10, 5, "GPU-1", "0000:01:00.0"}};
  for (int i = 0; i < 300; ++i) {
    info.guests.push_back({uint64_t(i), i, std::string(255, 'e'), std::string(255, 'l'), 1, 2, 3,
                           std::vector<uint8_t>(kDevicesMax, 4)});
  }
  EXPECT_LE(encode_message(info).size(), kControlMessageBytesMax);
  info.driver_path = "/l/libcuda.so.1";
  info.driver_reason = "no GPU answers";
  const InfoReply got = round_trip(info);
  EXPECT_EQ(got.driver_path, info.driver_path);
  EXPECT_EQ(got.driver_reason, info.driver_reason);
  EXPECT_EQ(got.guests.size(), kGuestsListedMax);
  EXPECT_EQ(got.guests[7].pid, 7);
  EXPECT_EQ(got.devices[0].granted_bytes, 5u);
  EXPECT_EQ(got.devices[0].uuid, "GPU-1");
  EXPECT_EQ(got.devices[0].pci_bus_id, "0000:01:00.0");
  EXPECT_EQ(got.guests[7].devices, std::vector<uint8_t>(kDevicesMax, 4));
  EXPECT_TRUE(round_trip(StopRequest{true}).force);
  EXPECT_EQ(round_trip(StopReply{3}).guests_left, 3u);
  EXPECT_EQ(round_trip(NetBeat{7, 8}).session, 7u);
  EXPECT_EQ(round_trip(NetBeat{7, 8}).number, 8u);
  EXPECT_EQ(round_trip(NetDetach{9}).session, 9u);
  EXPECT_EQ(round_trip(NetEnded{9, "revoked"}).text, "revoked");
  EXPECT_EQ(round_trip(Refusal{2, "no"}).code, 2);
  round_trip(InfoRequest{});
}

TEST(Messages, AShareAndATokenSurvive) {
  Hello hello = sample_hello();
  hello.profile = "small";
  hello.token = "0123456789abcdef";
  hello.weight = 300;
  hello.cap_permille = 125;
  hello.priority = 4;
  const Hello got = round_trip(hello);
  EXPECT_EQ(got.profile, "small");
  EXPECT_EQ(got.token, "0123456789abcdef");
  EXPECT_EQ(got.weight, 300u);
  EXPECT_EQ(got.cap_permille, 125u);
  EXPECT_EQ(got.priority, 4u);
  HelloReply reply = sample_reply();
  reply.limits.values[0] = 7;
  EXPECT_EQ(round_trip(reply).limits, reply.limits);
}

TEST(Messages, GuestsSurviveAndTheLargestPageFits) {
  GuestsReply reply = sample_guests(kGuestsPageMax + 1);
  reply.more = true;
  EXPECT_LE(encode_message(reply).size(), kControlMessageBytesMax);
  const GuestsReply got = round_trip(reply);
  ASSERT_EQ(got.guests.size(), kGuestsPageMax);
  EXPECT_TRUE(got.more && got.draining);
  EXPECT_EQ(got.waiting, 3u);
  EXPECT_EQ(got.devices[2].capacity_bytes, 2u);
  const GuestState& guest = got.guests[1];
  EXPECT_EQ(guest.session, 2u);
  EXPECT_EQ(guest.tenant, std::string(kListedNameBytesMax, 'n'));
  EXPECT_EQ(guest.used_bytes, std::vector<uint64_t>(kDevicesMax, 7));
  EXPECT_EQ(guest.mode, 1);
  EXPECT_EQ(guest.weight + guest.cap_permille + guest.priority + guest.uid, 1428u);
  EXPECT_EQ(guest.kernels + guest.copied_bytes[0] + guest.copied_bytes[1], 36u);
  EXPECT_EQ(guest.device_ns[2], 17u);
  EXPECT_EQ(guest.wait_ns, 18u);
  EXPECT_EQ(guest.throttled_ns, UINT64_MAX);
  EXPECT_EQ(round_trip(GuestsRequest{9}).after, 9u);
}

TEST(Messages, SteeringSurvivesAndIsChecked) {
  const SteerRequest got = round_trip(SteerRequest{SteerAction::kKill, 7, 8, 9, 10, 11});
  EXPECT_EQ(got.action, SteerAction::kKill);
  EXPECT_EQ(got.session + got.memory_bytes + got.weight + got.cap_permille + got.priority, 45u);
  EXPECT_EQ(round_trip(SteerReply{1, 2, 3, 4, 5, 6}).held_bytes, 6u);
  EXPECT_TRUE(refused(SteerRequest{static_cast<SteerAction>(0), 7}));
  EXPECT_TRUE(refused(SteerRequest{static_cast<SteerAction>(5), 7}));
  GuestsReply endless = sample_guests(0);
  endless.more = true;
  EXPECT_TRUE(refused(endless));
  GuestsReply lost = sample_guests(1);
  lost.guests[0].devices[3] = kDevicesMax;
  EXPECT_TRUE(refused(lost));
  GuestsReply uneven = sample_guests(1);
  uneven.guests[0].used_bytes.pop_back();
  EXPECT_TRUE(refused(uneven));
}

TEST(Messages, LargestReplyFits) {
  HelloReply reply = sample_reply();
  reply.devices[0].attributes.assign(kDeviceAttributesMax, 7);
  reply.devices[0].limits.assign(16, 7);
  reply.devices[0].peers.assign(kDevicesMax * kPeerFacts, 7);
  reply.devices.assign(kDevicesMax, reply.devices[0]);
  EXPECT_LE(encode_message(reply).size(), kControlMessageBytesMax);
  EXPECT_EQ(round_trip(reply).devices.size(), kDevicesMax);
}

TEST(Messages, EveryTruncationIsRefused) {
  for (const Message& message : {Message(sample_hello()), Message(sample_reply()),
                                 Message(sample_guests(2)), Message(SteerReply{})}) {
    const std::vector<uint8_t> bytes = encode_message(message);
    for (size_t size = 0; size < bytes.size(); ++size) {
      // Some truncations only cut bytes that nothing refers to; none may read beyond the end
      // (checked by ASan on an exact copy).
      const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<long>(size));
      const Result<Message> decoded = decode_message(cut);
      if (size < bytes.size() / 2) {
        EXPECT_FALSE(decoded.ok()) << size;
      }
    }
  }
}

TEST(Messages, MutationsNeverBreakTheLimits) {
  const std::vector<uint8_t> bytes = encode_message(Message(sample_reply()));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const uint8_t value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::vector<uint8_t> changed = bytes;
      changed[i] = value;
      const Result<Message> decoded = decode_message(changed);
      if (!decoded.ok()) continue;
      if (const auto* reply = std::get_if<HelloReply>(&decoded.value());
          reply != nullptr && reply->protocol_version == kProtocolVersion) {
        EXPECT_TRUE(reply->sizes.check().ok());
        EXPECT_LE(reply->devices.size(), kDevicesMax);
      }
    }
  }
}

TEST(Messages, RangesAreChecked) {
  Hello hello = sample_hello();
  hello.magic = 1;
  EXPECT_TRUE(refused(hello));
  hello = sample_hello();
  hello.device_ranges[0].base = UINT64_MAX - 4095;
  EXPECT_TRUE(refused(hello));
  hello.device_ranges[0] = {4096, 0};
  EXPECT_TRUE(refused(hello));
  hello.device_ranges[0] = {1, 4096};
  EXPECT_TRUE(refused(hello));
  hello.device_ranges.assign(kRangesMax + 1, {4096, 4096});
  EXPECT_TRUE(refused(hello));

  HelloReply reply = sample_reply();
  reply.devices.clear();
  EXPECT_TRUE(refused(reply));
  reply = sample_reply();
  reply.sizes.ring_bytes = 12345;
  EXPECT_TRUE(refused(reply));
  reply = sample_reply();
  reply.allocator = static_cast<AllocatorMode>(9);
  EXPECT_TRUE(refused(reply));
  reply = sample_reply();
  reply.memory_bytes = 0;
  EXPECT_TRUE(refused(reply));
  reply = sample_reply();
  reply.devices[0].peers.assign(kDevicesMax * kPeerFacts + 1, 0);
  EXPECT_TRUE(refused(reply));
  InfoReply info;
  info.guests.push_back({1, 1, "e", "l", 1, 2, 3, std::vector<uint8_t>(kDevicesMax + 1, 0)});
  EXPECT_TRUE(refused(info));
  EXPECT_TRUE(refused(Refusal{0, "success is no refusal"}));
  EXPECT_TRUE(refused(Refusal{-1, ""}));
}

}  // namespace
}  // namespace vgpu::protocol
