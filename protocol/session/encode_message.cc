// From plain values to FlatBuffers tables.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "protocol/session/encode_message.h"

namespace vgpu::protocol {
namespace {

flatbuffers::Offset<fb::Hello> encode_hello(Builder& to, const Hello& hello) {
  const auto executable = text(to, hello.executable);
  const auto label = text(to, hello.label);
  const auto version = text(to, hello.shim_version);
  const auto devices = text(to, hello.devices, kTextBytesMax);
  const auto visible = text(to, hello.visible_devices, kTextBytesMax);
  const auto tenant = text(to, hello.tenant);
  const auto remote = text(to, hello.remote);
  const auto profile = text(to, hello.profile);
  const auto token = text(to, hello.token);
  std::vector<fb::Range> ranges;
  for (const AddressRange& range : hello.device_ranges)
    ranges.emplace_back(range.base, range.bytes);
  const auto range_table = to.CreateVectorOfStructs(ranges);
  return fb::CreateHello(to, hello.magic, hello.protocol_version, hello.wire_hash, hello.pid,
                         executable, label, hello.memory_bytes, range_table, hello.flags, version,
                         devices, visible, tenant, remote, profile, token, hello.weight,
                         hello.cap_permille, hello.priority);
}

Encoded encode(Builder& to, const Hello& hello) {
  return {fb::Body::Hello, encode_hello(to, hello).Union()};
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

flatbuffers::Offset<fb::HelloReply> encode_hello_reply(Builder& to, const HelloReply& reply) {
  std::vector<flatbuffers::Offset<fb::Device>> devices;
  for (const DeviceSnapshot& device : reply.devices) devices.push_back(encode_device(to, device));
  const auto device_table = to.CreateVector(devices);
  const auto version = text(to, reply.server_version);
  const auto driver = text(to, reply.driver, kTextBytesMax);
  const auto limits = to.CreateVector(reply.limits.values.data(), reply.limits.values.size());
  const fb::Range range(reply.device_range.base, reply.device_range.bytes);
  const fb::Range host(reply.host_range.base, reply.host_range.bytes);
  return fb::CreateHelloReply(to, reply.protocol_version, reply.wire_hash, version, driver,
                              reply.driver_version, reply.session, reply.server_pid,
                              reply.memory_bytes, device_table, &range,
                              static_cast<uint8_t>(reply.allocator), reply.sizes.ring_bytes,
                              reply.sizes.up_bytes, reply.sizes.down_bytes, &host, limits,
                              static_cast<uint8_t>(reply.bell), reply.channel_offset);
}

Encoded encode(Builder& to, const HelloReply& reply) {
  return {fb::Body::HelloReply, encode_hello_reply(to, reply).Union()};
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
    devices.push_back(fb::CreateDeviceUse(to, name, use.memory_bytes, use.granted_bytes, uuid, pci,
                                          use.capacity_bytes));
  }
  std::vector<flatbuffers::Offset<fb::Guest>> guests;
  // Long names in many guests could pass the message's limit: a listing shows the beginning of
  // both.
  for (size_t i = 0; i < std::min(info.guests.size(), kGuestsListedMax); ++i) {
    const GuestInfo& guest = info.guests[i];
    const auto executable = text(to, guest.executable, kListedNameBytesMax);
    const auto label = text(to, guest.label, kListedNameBytesMax);
    const auto numbers = to.CreateVector(guest.devices);
    const auto tenant = text(to, guest.tenant, kListedNameBytesMax);
    const auto remote = text(to, guest.remote, kListedNameBytesMax);
    guests.push_back(fb::CreateGuest(to, guest.session, guest.pid, executable, label,
                                     guest.granted_bytes, guest.used_bytes, guest.uptime_ms,
                                     numbers, tenant, remote));
  }
  std::vector<flatbuffers::Offset<fb::Network>> networks;
  for (const NetworkUse& use : info.networks) {
    const auto address = text(to, use.address);
    const auto key = text(to, use.public_key);
    networks.push_back(fb::CreateNetwork(to, address, key, use.guests, use.connections,
                                         use.attached, use.refused, use.strangers, use.malformed));
  }
  const auto network_table = to.CreateVector(networks);
  const auto device_table = to.CreateVector(devices);
  const auto guest_table = to.CreateVector(guests);
  const auto version = text(to, info.server_version);
  const auto driver = text(to, info.driver, kTextBytesMax);
  const auto path = text(to, info.driver_path, kTextBytesMax);
  const auto reason = text(to, info.driver_reason, kTextBytesMax);
  const auto table =
      fb::CreateInfoReply(to, version, driver, info.driver_version, info.server_pid, info.uptime_ms,
                          device_table, guest_table, path, reason, network_table);
  return {fb::Body::InfoReply, table.Union()};
}

Encoded encode(Builder& to, const StopRequest& stop) {
  return {fb::Body::StopRequest, fb::CreateStopRequest(to, stop.force).Union()};
}

Encoded encode(Builder& to, const StopReply& stop) {
  return {fb::Body::StopReply, fb::CreateStopReply(to, stop.guests_left).Union()};
}

Encoded encode(Builder& to, const NetAttach& attach) {
  const auto hello = encode_hello(to, attach.hello);
  const auto provider = text(to, attach.provider);
  const auto table =
      fb::CreateNetAttach(to, hello, provider, attach.require_encryption, attach.grace_ms);
  return {fb::Body::NetAttach, table.Union()};
}

Encoded encode(Builder& to, const NetAttached& attached) {
  const auto reply = encode_hello_reply(to, attached.reply);
  const auto provider = text(to, attached.provider);
  const auto address = to.CreateVector(attached.address);
  const fb::Secret secret(flatbuffers::span<const uint8_t, 32>(attached.secret.data(), 32));
  const auto table = fb::CreateNetAttached(to, reply, provider, address, &secret, attached.beat_ms,
                                           attached.grace_ms);
  return {fb::Body::NetAttached, table.Union()};
}

Encoded encode(Builder& to, const NetBeat& beat) {
  return {fb::Body::NetBeat, fb::CreateNetBeat(to, beat.session, beat.number).Union()};
}

Encoded encode(Builder& to, const NetDetach& detach) {
  return {fb::Body::NetDetach, fb::CreateNetDetach(to, detach.session).Union()};
}

Encoded encode(Builder& to, const NetResume& resume) {
  return {fb::Body::NetResume, fb::CreateNetResume(to, resume.session, resume.epoch).Union()};
}

Encoded encode(Builder& to, const NetResumed& resumed) {
  const auto address = to.CreateVector(resumed.address);
  const fb::Secret secret(flatbuffers::span<const uint8_t, 32>(resumed.secret.data(), 32));
  const auto table = fb::CreateNetResumed(to, resumed.session, resumed.epoch, address, &secret);
  return {fb::Body::NetResumed, table.Union()};
}

Encoded encode(Builder& to, const NetEnded& ended) {
  const auto reason = text(to, ended.text, kTextBytesMax);
  return {fb::Body::NetEnded, fb::CreateNetEnded(to, ended.session, reason).Union()};
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
