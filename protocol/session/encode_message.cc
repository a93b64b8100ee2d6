// From plain values to FlatBuffers tables.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "protocol/session/messages.h"
#include "protocol/session/tables.h"

namespace vgpu::protocol {
namespace {

using Builder = flatbuffers::FlatBufferBuilder;

struct Encoded {
  fb::Body type;
  flatbuffers::Offset<void> table;
};

flatbuffers::Offset<flatbuffers::String> text(Builder& to, const std::string& from,
                                              size_t bytes_max = kNameBytesMax) {
  return put_text(to, from, bytes_max);
}

Encoded encode(Builder& to, const Hello& hello) {
  const auto executable = text(to, hello.executable);
  const auto label = text(to, hello.label);
  const auto version = text(to, hello.shim_version);
  const auto devices = text(to, hello.devices, kTextBytesMax);
  const auto visible = text(to, hello.visible_devices, kTextBytesMax);
  std::vector<fb::Range> ranges;
  for (const AddressRange& range : hello.device_ranges)
    ranges.emplace_back(range.base, range.bytes);
  const auto range_table = to.CreateVectorOfStructs(ranges);
  const auto table = fb::CreateHello(to, hello.magic, hello.protocol_version, hello.wire_hash,
                                     hello.pid, executable, label, hello.memory_bytes, range_table,
                                     hello.flags, version, devices, visible);
  return {fb::Body::Hello, table.Union()};
}

flatbuffers::Offset<fb::Device> encode_device(Builder& to, const DeviceSnapshot& device) {
  const auto name = text(to, device.name);
  const auto pci = text(to, device.pci_bus_id);
  const auto attributes = to.CreateVector(device.attributes);
  const auto limits = to.CreateVector(device.limits);
  const auto peers = to.CreateVector(device.peers);
  const fb::Uuid uuid(flatbuffers::span<const uint8_t, 16>(device.uuid.data(), 16));
  return fb::CreateDevice(to, name, &uuid, pci, attributes, limits, device.memory_bytes, peers);
}

Encoded encode(Builder& to, const HelloReply& reply) {
  std::vector<flatbuffers::Offset<fb::Device>> devices;
  for (const DeviceSnapshot& device : reply.devices) devices.push_back(encode_device(to, device));
  const auto device_table = to.CreateVector(devices);
  const auto version = text(to, reply.server_version);
  const auto driver = text(to, reply.driver, kTextBytesMax);
  const fb::Range range(reply.device_range.base, reply.device_range.bytes);
  const fb::Range host(reply.host_range.base, reply.host_range.bytes);
  const auto table = fb::CreateHelloReply(
      to, reply.protocol_version, reply.wire_hash, version, driver, reply.driver_version,
      reply.session, reply.server_pid, reply.memory_bytes, device_table, &range,
      static_cast<uint8_t>(reply.allocator), reply.sizes.ring_bytes, reply.sizes.up_bytes,
      reply.sizes.down_bytes, &host);
  return {fb::Body::HelloReply, table.Union()};
}

Encoded encode(Builder& to, const Refusal& refusal) {
  const auto reason = text(to, refusal.text, kTextBytesMax);
  return {fb::Body::Refusal, fb::CreateRefusal(to, refusal.code, reason).Union()};
}

Encoded encode(Builder& to, const InfoRequest&) {
  return {fb::Body::InfoRequest, fb::CreateInfoRequest(to).Union()};
}

Encoded encode(Builder& to, const InfoReply& info) {
  std::vector<flatbuffers::Offset<fb::DeviceUse>> devices;
  for (const DeviceUse& use : info.devices) {
    const auto name = text(to, use.name);
    const auto uuid = text(to, use.uuid);
    const auto pci = text(to, use.pci_bus_id);
    devices.push_back(
        fb::CreateDeviceUse(to, name, use.memory_bytes, use.granted_bytes, uuid, pci));
  }
  std::vector<flatbuffers::Offset<fb::Guest>> guests;
  // Long names in many guests could pass the message's limit: a listing shows the beginning of
  // both.
  for (size_t i = 0; i < std::min(info.guests.size(), kGuestsListedMax); ++i) {
    const GuestInfo& guest = info.guests[i];
    const auto executable = text(to, guest.executable, kListedNameBytesMax);
    const auto label = text(to, guest.label, kListedNameBytesMax);
    const auto numbers = to.CreateVector(guest.devices);
    guests.push_back(fb::CreateGuest(to, guest.session, guest.pid, executable, label,
                                     guest.granted_bytes, guest.used_bytes, guest.uptime_ms,
                                     numbers));
  }
  const auto device_table = to.CreateVector(devices);
  const auto guest_table = to.CreateVector(guests);
  const auto version = text(to, info.server_version);
  const auto driver = text(to, info.driver, kTextBytesMax);
  const auto path = text(to, info.driver_path, kTextBytesMax);
  const auto reason = text(to, info.driver_reason, kTextBytesMax);
  const auto table = fb::CreateInfoReply(to, version, driver, info.driver_version, info.server_pid,
                                         info.uptime_ms, device_table, guest_table, path, reason);
  return {fb::Body::InfoReply, table.Union()};
}

Encoded encode(Builder& to, const StopRequest& stop) {
  return {fb::Body::StopRequest, fb::CreateStopRequest(to, stop.force).Union()};
}

Encoded encode(Builder& to, const StopReply& stop) {
  return {fb::Body::StopReply, fb::CreateStopReply(to, stop.guests_left).Union()};
}

}  // namespace

std::vector<uint8_t> encode_message(const Message& message) {
  Builder builder(1024);
  const Encoded body =
      std::visit([&](const auto& value) { return encode(builder, value); }, message);
  fb::FinishMessageBuffer(builder, fb::CreateMessage(builder, body.type, body.table));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

}  // namespace vgpu::protocol
