// Range checks on control messages: the verifier has checked structure only.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/session/decode_message.h"

#include <algorithm>
#include <utility>

#include "protocol/session/tables.h"

namespace vgpu::protocol {
namespace {

bool range_ok(const AddressRange& range) {
  return range.base % kPageBytes == 0 && range.bytes % kPageBytes == 0 &&
         range.bytes <= UINT64_MAX - range.base;
}

Status take_device(const fb::Device& table, DeviceSnapshot* device) {
  if (!take_text(table.name(), kNameBytesMax, &device->name)) return malformed("device name");
  if (!take_text(table.pci_bus_id(), kNameBytesMax, &device->pci_bus_id)) {
    return malformed("PCI bus id");
  }
  if (size_of(table.attributes()) > kDeviceAttributesMax) return malformed("device attributes");
  if (size_of(table.limits()) > kDeviceAttributesMax || !aligned(table.limits())) {
    return malformed("device limits");
  }
  if (table.uuid() != nullptr) {
    std::copy_n(table.uuid()->bytes()->data(), device->uuid.size(), device->uuid.begin());
  }
  if (table.attributes() != nullptr) {
    device->attributes.assign(table.attributes()->begin(), table.attributes()->end());
  }
  if (table.limits() != nullptr) {
    device->limits.assign(table.limits()->begin(), table.limits()->end());
  }
  if (size_of(table.peers()) > kDevicesMax * kPeerFacts) return malformed("peers");
  if (table.peers() != nullptr) device->peers.assign(table.peers()->begin(), table.peers()->end());
  device->memory_bytes = table.memory_bytes();
  return ok_status();
}

Status take_guest(const fb::Guest& table, GuestInfo* guest) {
  if (!take_text(table.executable(), kNameBytesMax, &guest->executable) ||
      !take_text(table.label(), kNameBytesMax, &guest->label)) {
    return malformed("guest name");
  }
  if (!take_text(table.tenant(), kNameBytesMax, &guest->tenant) ||
      !take_text(table.remote(), kNameBytesMax, &guest->remote)) {
    return malformed("tenant");
  }
  guest->session = table.session();
  guest->pid = table.pid();
  guest->granted_bytes = table.granted_bytes();
  guest->used_bytes = table.used_bytes();
  guest->uptime_ms = table.uptime_ms();
  if (size_of(table.devices()) > kDevicesMax) return malformed("number of devices");
  if (table.devices() != nullptr)
    guest->devices.assign(table.devices()->begin(), table.devices()->end());
  return ok_status();
}

Status take_network(const fb::Network& table, NetworkUse* use) {
  if (!take_text(table.address(), kTextBytesMax, &use->address) ||
      !take_text(table.public_key(), kNameBytesMax, &use->public_key)) {
    return malformed("network");
  }
  use->guests = table.guests();
  use->connections = table.connections();
  use->attached = table.attached();
  use->refused = table.refused();
  use->strangers = table.strangers();
  use->malformed = table.malformed();
  return ok_status();
}

bool is_grace(uint32_t ms) { return ms >= kGraceMsMin && ms <= kGraceMsMax; }

// Where a data connection is taken, and the secret for it.
template <typename Table, typename Value>
bool take_place(const Table& table, Value* value) {
  if (size_of(table.address()) > kDataAddressBytesMax) return false;
  if (table.address() != nullptr)
    value->address.assign(table.address()->begin(), table.address()->end());
  std::copy_n(table.secret()->bytes()->data(), value->secret.size(), value->secret.begin());
  return true;
}

}  // namespace

Result<Message> decode_hello(const fb::Hello& table) {
  Hello hello;
  hello.magic = table.magic();
  if (hello.magic != kHelloMagic) return malformed("magic number");
  hello.protocol_version = table.protocol_version();
  hello.wire_hash = table.wire_hash();
  hello.pid = table.pid();
  hello.memory_bytes = table.memory_bytes();
  hello.flags = table.flags();
  if (!take_text(table.executable(), kNameBytesMax, &hello.executable))
    return malformed("executable");
  if (!take_text(table.label(), kNameBytesMax, &hello.label)) return malformed("label");
  if (!take_text(table.shim_version(), kNameBytesMax, &hello.shim_version)) {
    return malformed("shim version");
  }
  if (!take_text(table.devices(), kTextBytesMax, &hello.devices) ||
      !take_text(table.visible_devices(), kTextBytesMax, &hello.visible_devices)) {
    return malformed("list of devices");
  }
  if (!take_text(table.tenant(), kNameBytesMax, &hello.tenant) ||
      !take_text(table.remote(), kNameBytesMax, &hello.remote)) {
    return malformed("tenant");
  }
  if (!take_text(table.profile(), kNameBytesMax, &hello.profile) ||
      !take_text(table.token(), kNameBytesMax, &hello.token)) {
    return malformed("profile or token");
  }
  hello.weight = table.weight();
  hello.cap_permille = table.cap_permille();
  hello.priority = table.priority();
  if (size_of(table.device_ranges()) > kRangesMax || !aligned(table.device_ranges())) {
    return malformed("number of address ranges");
  }
  if (table.device_ranges() != nullptr) {
    for (const fb::Range* range : *table.device_ranges()) {
      const AddressRange taken{range->base(), range->bytes()};
      if (!range_ok(taken) || taken.bytes == 0) return malformed("address range");
      hello.device_ranges.push_back(taken);
    }
  }
  return Message(std::move(hello));
}

Result<Message> decode_hello_reply(const fb::HelloReply& table) {
  HelloReply reply;
  reply.protocol_version = table.protocol_version();
  reply.wire_hash = table.wire_hash();
  reply.driver_version = table.driver_version();
  reply.session = table.session();
  reply.server_pid = table.server_pid();
  reply.memory_bytes = table.memory_bytes();
  reply.sizes = ChannelSizes{table.ring_bytes(), table.up_bytes(), table.down_bytes()};
  if (!take_text(table.server_version(), kNameBytesMax, &reply.server_version)) {
    return malformed("server version");
  }
  if (!take_text(table.driver(), kTextBytesMax, &reply.driver)) return malformed("driver");
  // What follows means something only between equals; attach_over names the mismatch.
  if (reply.protocol_version != kProtocolVersion) return Message(std::move(reply));
  VGPU_RETURN_IF_ERROR(reply.sizes.check());
  if (table.allocator() < 1 || table.allocator() > 3) return malformed("allocator");
  reply.allocator = static_cast<AllocatorMode>(table.allocator());
  if (table.device_range() != nullptr) {
    reply.device_range = {table.device_range()->base(), table.device_range()->bytes()};
  }
  if (table.host_range() != nullptr) {
    reply.host_range = {table.host_range()->base(), table.host_range()->bytes()};
  }
  if (!range_ok(reply.device_range) || !range_ok(reply.host_range)) {
    return malformed("address range");
  }
  if (table.bell() > static_cast<uint8_t>(BellKind::kRung)) return malformed("bell");
  reply.bell = static_cast<BellKind>(table.bell());
  reply.channel_offset = table.channel_offset();
  if (reply.channel_offset % kPageBytes != 0 || reply.channel_offset > kRegionBytesMax) {
    return malformed("place of the channel");
  }
  if (reply.memory_bytes == 0) return malformed("memory grant");
  if (size_of(table.limits()) != kGuestLimits || !aligned(table.limits()))
    return malformed("limits");
  std::copy_n(table.limits()->begin(), kGuestLimits, reply.limits.values.begin());
  const size_t devices = size_of(table.devices());
  if (devices == 0 || devices > kDevicesMax) return malformed("number of devices");
  reply.devices.resize(devices);
  for (size_t i = 0; i < devices; ++i) {
    const auto index = static_cast<flatbuffers::uoffset_t>(i);
    VGPU_RETURN_IF_ERROR(take_device(*table.devices()->Get(index), &reply.devices[i]));
  }
  return Message(std::move(reply));
}

Result<Message> decode_refusal(const fb::Refusal& table) {
  Refusal refusal;
  refusal.code = table.code();
  // A refusal must not look like success to the program.
  if (refusal.code <= 0) return malformed("refusal code");
  if (!take_text(table.text(), kTextBytesMax, &refusal.text)) return malformed("text");
  return Message(std::move(refusal));
}

Result<Message> decode_info_reply(const fb::InfoReply& table) {
  InfoReply info;
  info.driver_version = table.driver_version();
  info.server_pid = table.server_pid();
  info.uptime_ms = table.uptime_ms();
  if (!take_text(table.server_version(), kNameBytesMax, &info.server_version) ||
      !take_text(table.driver(), kTextBytesMax, &info.driver) ||
      !take_text(table.driver_path(), kTextBytesMax, &info.driver_path) ||
      !take_text(table.driver_reason(), kTextBytesMax, &info.driver_reason)) {
    return malformed("text");
  }
  if (size_of(table.devices()) > kDevicesMax) return malformed("number of devices");
  if (size_of(table.guests()) > kGuestsListedMax) return malformed("number of guests");
  if (size_of(table.networks()) > kNetworksMax) return malformed("number of networks");
  info.networks.resize(size_of(table.networks()));
  for (size_t i = 0; i < info.networks.size(); ++i) {
    const auto index = static_cast<flatbuffers::uoffset_t>(i);
    VGPU_RETURN_IF_ERROR(take_network(*table.networks()->Get(index), &info.networks[i]));
  }
  info.devices.resize(size_of(table.devices()));
  for (size_t i = 0; i < info.devices.size(); ++i) {
    const fb::DeviceUse* use = table.devices()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (!take_text(use->name(), kNameBytesMax, &info.devices[i].name) ||
        !take_text(use->uuid(), kNameBytesMax, &info.devices[i].uuid) ||
        !take_text(use->pci_bus_id(), kNameBytesMax, &info.devices[i].pci_bus_id)) {
      return malformed("device name");
    }
    info.devices[i].memory_bytes = use->memory_bytes();
    info.devices[i].granted_bytes = use->granted_bytes();
    info.devices[i].capacity_bytes = use->capacity_bytes();
  }
  info.guests.resize(size_of(table.guests()));
  for (size_t i = 0; i < info.guests.size(); ++i) {
    const auto index = static_cast<flatbuffers::uoffset_t>(i);
    VGPU_RETURN_IF_ERROR(take_guest(*table.guests()->Get(index), &info.guests[i]));
  }
  return Message(std::move(info));
}

Result<Message> decode_net_resume(const fb::NetResume& table) {
  if (table.epoch() < 2) return malformed("epoch");  // the first was for attaching
  return Message(NetResume{table.session(), table.epoch()});
}

Result<Message> decode_net_resumed(const fb::NetResumed& table) {
  NetResumed resumed;
  resumed.session = table.session();
  resumed.epoch = table.epoch();
  if (!take_place(table, &resumed)) return malformed("data address");
  return Message(std::move(resumed));
}

Result<Message> decode_net_attach(const fb::NetAttach& table) {
  NetAttach attach;
  Result<Message> hello = decode_hello(*table.hello());
  if (!hello.ok()) return hello.status();
  attach.hello = std::move(std::get<Hello>(*hello));
  if (!take_text(table.provider(), kNameBytesMax, &attach.provider)) return malformed("provider");
  attach.require_encryption = table.require_encryption();
  attach.grace_ms = table.grace_ms();
  if (attach.grace_ms != 0 && !is_grace(attach.grace_ms)) return malformed("grace");
  return Message(std::move(attach));
}

Result<Message> decode_net_attached(const fb::NetAttached& table) {
  NetAttached attached;
  Result<Message> reply = decode_hello_reply(*table.reply());
  if (!reply.ok()) return reply.status();
  attached.reply = std::move(std::get<HelloReply>(*reply));
  if (!take_text(table.provider(), kNameBytesMax, &attached.provider)) {
    return malformed("provider");
  }
  if (!take_place(table, &attached)) return malformed("data address");
  attached.beat_ms = table.beat_ms();
  if (attached.beat_ms < kBeatMsMin || attached.beat_ms > kBeatMsMax) return malformed("beat");
  attached.grace_ms = table.grace_ms();
  if (!is_grace(attached.grace_ms)) return malformed("grace");
  return Message(std::move(attached));
}

Result<Message> decode_net_ended(const fb::NetEnded& table) {
  NetEnded ended;
  ended.session = table.session();
  if (!take_text(table.text(), kTextBytesMax, &ended.text)) return malformed("text");
  return Message(std::move(ended));
}

}  // namespace vgpu::protocol
