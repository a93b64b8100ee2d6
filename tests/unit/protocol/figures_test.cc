// Messages about a caller's own figures: round trip, truncation, mutation, ranges.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/session/figures.h"

#include <gtest/gtest.h>

#include "protocol/session/messages.h"

namespace vgpu::protocol {
namespace {

template <typename T, typename Decode>
T round_trip(const T& message, Decode decode) {
  const Result<T> decoded = decode(encode_figures(message));
  EXPECT_TRUE(decoded.ok()) << decoded.status().text();
  return decoded.ok() ? *decoded : T{};
}

bool refused(const FiguresReply& reply) {
  const Result<FiguresReply> decoded = decode_figures_reply(encode_figures(reply));
  return !decoded.ok() && decoded.status().code() == StatusCode::kMalformed;
}

FiguresReply sample_figures() {
  FiguresReply figures;
  figures.server_version = "0.1";
  figures.driver = "nvidia";
  figures.driver_version = 13000;
  figures.driver_release = "580.1";
  figures.now_ns = uint64_t{1} << 40;
  OwnDevice device;
  device.name = "G";
  device.uuid[3] = 9;
  device.pci_bus_id = "0000:01:00.0";
  device.facts = {9, 0, 132};
  device.memory_bytes = 7;
  device.used_bytes = 5;
  figures.devices.assign(kDevicesMax, device);
  OwnGuest guest;
  guest.session = 3;
  guest.pid = 12;
  guest.caller = true;
  guest.uses.assign(kDevicesMax, {15, 4, 2});
  guest.engine_ns = {1, 2, uint64_t{1} << 50};
  figures.guests.assign(kOwnGuestsMax + 5, guest);
  return figures;
}

TEST(FiguresMessages, Survive) {
  EXPECT_LE(encode_figures(sample_figures()).size(), kControlMessageBytesMax);
  const FiguresReply got = round_trip(sample_figures(), decode_figures_reply);
  EXPECT_EQ(got.driver_version, 13000);
  EXPECT_EQ(got.driver_release, "580.1");
  EXPECT_EQ(got.now_ns, uint64_t{1} << 40);
  ASSERT_EQ(got.devices.size(), kDevicesMax);
  EXPECT_EQ(got.devices[4].uuid, sample_figures().devices[4].uuid);
  EXPECT_EQ(got.devices[4].fact(DeviceFact::kMultiprocessors), 132);
  EXPECT_EQ(got.devices[4].fact(DeviceFact::kEccEnabled), 0);  // not sent
  EXPECT_EQ(got.devices[4].used_bytes, 5u);
  ASSERT_EQ(got.guests.size(), kOwnGuestsMax);
  EXPECT_TRUE(got.guests[1].caller);
  EXPECT_EQ(got.guests[1].uses[15].granted_bytes, 4u);
  EXPECT_EQ(got.guests[1].engine_ns, sample_figures().guests[1].engine_ns);
  const FiguresRequest request =
      round_trip(FiguresRequest{"blue\n", 5, "1,0", "small", "a-token"}, decode_figures_request);
  EXPECT_EQ(request.label, "blue?");
  EXPECT_EQ(request.memory_bytes, 5u);
  EXPECT_EQ(request.devices, "1,0");
}

TEST(FiguresMessages, AreChecked) {
  FiguresReply figures = sample_figures();
  figures.devices.resize(15);  // the guests name the sixteenth
  EXPECT_TRUE(refused(figures));
  figures = sample_figures();
  figures.devices[0].facts.assign(kFactsMax + 1, 0);
  EXPECT_TRUE(refused(figures));
  figures = sample_figures();
  figures.guests[0].engine_ns.assign(kFactsMax + 1, 0);
  EXPECT_TRUE(refused(figures));
  figures = sample_figures();
  figures.guests[0].uses.assign(kDevicesMax + 1, {});
  EXPECT_TRUE(refused(figures));
  figures = sample_figures();
  figures.devices.resize(kDevicesMax + 1);
  EXPECT_TRUE(refused(figures));
}

TEST(FiguresMessages, OthersAreOthers) {
  const std::vector<uint8_t> info = encode_message(InfoRequest{});
  EXPECT_EQ(decode_figures_request(info).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(decode_figures_reply(encode_figures(FiguresRequest{})).status().code(),
            StatusCode::kNotFound);
  EXPECT_FALSE(decode_message(encode_figures(FiguresRequest{})).ok());
  EXPECT_EQ(decode_figures_request({}).status().code(), StatusCode::kMalformed);
}

// None may read beyond the end (checked by ASan on an exact copy), nor pass a limit.
TEST(FiguresMessages, TruncationsAndMutations) {
  FiguresReply small = sample_figures();
  small.devices.resize(2);
  small.guests.resize(2);
  for (OwnGuest& guest : small.guests) guest.uses.assign(2, {1, 4, 2});
  const std::vector<uint8_t> bytes = encode_figures(small);
  ASSERT_TRUE(decode_figures_reply(bytes).ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<long>(size));
    const bool taken = decode_figures_reply(cut).ok();
    if (size < bytes.size() / 2) {
      EXPECT_FALSE(taken) << size;
    }
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const uint8_t value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::vector<uint8_t> changed = bytes;
      changed[i] = value;
      const Result<FiguresReply> reply = decode_figures_reply(changed);
      if (!reply.ok()) continue;
      EXPECT_LE(reply->devices.size(), kDevicesMax);
      for (const OwnGuest& guest : reply->guests) {
        for (const OwnUse& use : guest.uses) EXPECT_LT(use.device, reply->devices.size());
      }
    }
  }
}

}  // namespace
}  // namespace vgpu::protocol
