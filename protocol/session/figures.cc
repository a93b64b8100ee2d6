// Coding and range checks of the messages about a caller's own figures.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/session/figures.h"

#include <algorithm>

#include "protocol/limits.h"
#include "protocol/session/tables.h"

namespace vgpu::protocol {
namespace {

Status take_own_device(const fb::OwnDevice& table, OwnDevice* device) {
  if (!take_text(table.name(), kNameBytesMax, &device->name) ||
      !take_text(table.pci_bus_id(), kNameBytesMax, &device->pci_bus_id)) {
    return malformed("device name");
  }
  if (size_of(table.facts()) > kFactsMax) return malformed("facts of a device");
  if (table.facts() != nullptr) device->facts.assign(table.facts()->begin(), table.facts()->end());
  if (table.uuid() != nullptr) {
    std::copy_n(table.uuid()->bytes()->data(), device->uuid.size(), device->uuid.begin());
  }
  device->memory_bytes = table.memory_bytes();
  device->used_bytes = table.used_bytes();
  return ok_status();
}

Status take_own_guest(const fb::OwnGuest& table, size_t devices, OwnGuest* guest) {
  guest->session = table.session();
  guest->pid = table.pid();
  guest->caller = table.caller();
  if (size_of(table.uses()) > kDevicesMax) return malformed("devices of a guest");
  if (size_of(table.engine_ns()) > kFactsMax || !aligned(table.engine_ns())) {
    return malformed("engines of a guest");
  }
  if (table.engine_ns() != nullptr)
    guest->engine_ns.assign(table.engine_ns()->begin(), table.engine_ns()->end());
  for (size_t i = 0; i < size_of(table.uses()); ++i) {
    const fb::OwnUse* use = table.uses()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (use->device() >= devices) return malformed("device of a guest");
    guest->uses.push_back({use->device(), use->granted_bytes(), use->used_bytes()});
  }
  return ok_status();
}

using Builder = flatbuffers::FlatBufferBuilder;

std::vector<uint8_t> finished(Builder& to, fb::Body kind, flatbuffers::Offset<void> body) {
  fb::FinishMessageBuffer(to, fb::CreateMessage(to, kind, body));
  return {to.GetBufferPointer(), to.GetBufferPointer() + to.GetSize()};
}

flatbuffers::Offset<fb::OwnDevice> put_device(Builder& to, const OwnDevice& device) {
  const auto name = put_text(to, device.name, kNameBytesMax);
  const auto pci = put_text(to, device.pci_bus_id, kNameBytesMax);
  const auto facts = to.CreateVector(device.facts);
  const fb::Uuid uuid(flatbuffers::span<const uint8_t, 16>(device.uuid.data(), 16));
  return fb::CreateOwnDevice(to, name, &uuid, pci, facts, device.memory_bytes, device.used_bytes);
}

flatbuffers::Offset<fb::OwnGuest> put_guest(Builder& to, const OwnGuest& guest) {
  std::vector<flatbuffers::Offset<fb::OwnUse>> uses;
  for (const OwnUse& use : guest.uses)
    uses.push_back(fb::CreateOwnUse(to, use.device, use.granted_bytes, use.used_bytes));
  const auto use_table = to.CreateVector(uses);
  const auto engines = to.CreateVector(guest.engine_ns);
  return fb::CreateOwnGuest(to, guest.session, guest.pid, guest.caller, use_table, engines);
}

// The verified message around a body of this kind.
Result<const fb::Message*> message_of(std::span<const uint8_t> bytes, fb::Body kind) {
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), /*max_depth=*/8, /*max_tables=*/2048);
  if (bytes.size() > kControlMessageBytesMax || !fb::VerifyMessageBuffer(verifier))
    return malformed("message");
  const fb::Message* message = fb::GetMessage(bytes.data());
  if (message->body_type() != kind) return Status(StatusCode::kNotFound, "another message");
  if (message->body() == nullptr) return malformed("body");
  return message;
}

}  // namespace

std::vector<uint8_t> encode_figures(const FiguresRequest& request) {
  Builder to(256);
  const auto label = put_text(to, request.label, kNameBytesMax);
  const auto devices = put_text(to, request.devices, kTextBytesMax);
  const auto profile = put_text(to, request.profile, kNameBytesMax);
  const auto token = put_text(to, request.token, kNameBytesMax);
  const auto table =
      fb::CreateFiguresRequest(to, label, request.memory_bytes, devices, profile, token);
  return finished(to, fb::Body::FiguresRequest, table.Union());
}

std::vector<uint8_t> encode_figures(const FiguresReply& reply) {
  Builder to(1024);
  std::vector<flatbuffers::Offset<fb::OwnDevice>> devices;
  for (const OwnDevice& device : reply.devices) devices.push_back(put_device(to, device));
  std::vector<flatbuffers::Offset<fb::OwnGuest>> guests;
  for (size_t i = 0; i < std::min(reply.guests.size(), kOwnGuestsMax); ++i)
    guests.push_back(put_guest(to, reply.guests[i]));
  const auto device_table = to.CreateVector(devices);
  const auto guest_table = to.CreateVector(guests);
  const auto version = put_text(to, reply.server_version, kNameBytesMax);
  const auto driver = put_text(to, reply.driver, kNameBytesMax);
  const auto release = put_text(to, reply.driver_release, kNameBytesMax);
  const auto table = fb::CreateFiguresReply(to, version, driver, reply.driver_version, release,
                                            reply.now_ns, device_table, guest_table);
  return finished(to, fb::Body::FiguresReply, table.Union());
}

Result<FiguresRequest> decode_figures_request(std::span<const uint8_t> bytes) {
  const Result<const fb::Message*> message = message_of(bytes, fb::Body::FiguresRequest);
  if (!message.ok()) return message.status();
  const fb::FiguresRequest& table = *(*message)->body_as_FiguresRequest();
  FiguresRequest request;
  request.memory_bytes = table.memory_bytes();
  if (!take_text(table.label(), kNameBytesMax, &request.label)) return malformed("label");
  if (!take_text(table.devices(), kTextBytesMax, &request.devices))
    return malformed("list of devices");
  if (!take_text(table.profile(), kNameBytesMax, &request.profile) ||
      !take_text(table.token(), kNameBytesMax, &request.token)) {
    return malformed("profile or token");
  }
  return request;
}

Result<FiguresReply> decode_figures_reply(std::span<const uint8_t> bytes) {
  const Result<const fb::Message*> message = message_of(bytes, fb::Body::FiguresReply);
  if (!message.ok()) return message.status();
  const fb::FiguresReply& table = *(*message)->body_as_FiguresReply();
  FiguresReply reply;
  reply.driver_version = table.driver_version();
  reply.now_ns = table.now_ns();
  if (!take_text(table.server_version(), kNameBytesMax, &reply.server_version) ||
      !take_text(table.driver(), kNameBytesMax, &reply.driver) ||
      !take_text(table.driver_release(), kNameBytesMax, &reply.driver_release)) {
    return malformed("text");
  }
  if (size_of(table.devices()) > kDevicesMax) return malformed("number of devices");
  if (size_of(table.guests()) > kOwnGuestsMax) return malformed("number of guests");
  reply.devices.resize(size_of(table.devices()));
  for (size_t i = 0; i < reply.devices.size(); ++i) {
    const auto index = static_cast<flatbuffers::uoffset_t>(i);
    VGPU_RETURN_IF_ERROR(take_own_device(*table.devices()->Get(index), &reply.devices[i]));
  }
  reply.guests.resize(size_of(table.guests()));
  for (size_t i = 0; i < reply.guests.size(); ++i) {
    const auto index = static_cast<flatbuffers::uoffset_t>(i);
    VGPU_RETURN_IF_ERROR(
        take_own_guest(*table.guests()->Get(index), reply.devices.size(), &reply.guests[i]));
  }
  return reply;
}

}  // namespace vgpu::protocol
