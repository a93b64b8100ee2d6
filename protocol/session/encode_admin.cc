// Listing and steering guests: from plain values to FlatBuffers tables.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "protocol/session/encode_message.h"

namespace vgpu::protocol {
namespace {

flatbuffers::Offset<fb::DeviceState> encode_device(Builder& to, const DeviceState& device) {
  const auto name = text(to, device.name);
  const auto uuid = text(to, device.uuid);
  return fb::CreateDeviceState(to, name, uuid, device.memory_bytes, device.capacity_bytes,
                               device.granted_bytes);
}

flatbuffers::Offset<fb::GuestState> encode_guest(Builder& to, const GuestState& guest) {
  const auto executable = text(to, guest.executable, kListedNameBytesMax);
  const auto label = text(to, guest.label, kListedNameBytesMax);
  const auto tenant = text(to, guest.tenant, kListedNameBytesMax);
  const auto profile = text(to, guest.profile, kListedNameBytesMax);
  const auto devices = to.CreateVector(guest.devices);
  const auto granted = to.CreateVector(guest.granted_bytes);
  const auto used = to.CreateVector(guest.used_bytes);
  const fb::GuestFigures figures(
      guest.kernels, guest.copied_bytes[0], guest.copied_bytes[1], guest.refused_allocations,
      flatbuffers::span<const uint64_t, kEngineFigures>(guest.device_ns, kEngineFigures),
      guest.wait_ns, guest.throttled_ns);
  return fb::CreateGuestState(to, guest.session, guest.pid, guest.uid, executable, label, tenant,
                              profile, guest.uptime_ms, devices, granted, used, guest.weight,
                              guest.cap_permille, guest.priority, &figures, guest.mode);
}

}  // namespace

Encoded encode(Builder& to, const GuestsRequest& request) {
  return {fb::Body::GuestsRequest, fb::CreateGuestsRequest(to, request.after).Union()};
}

Encoded encode(Builder& to, const GuestsReply& reply) {
  std::vector<flatbuffers::Offset<fb::DeviceState>> devices;
  for (const DeviceState& device : reply.devices) devices.push_back(encode_device(to, device));
  std::vector<flatbuffers::Offset<fb::GuestState>> guests;
  for (size_t i = 0; i < std::min(reply.guests.size(), kGuestsPageMax); ++i)
    guests.push_back(encode_guest(to, reply.guests[i]));
  const auto device_table = to.CreateVector(devices);
  const auto guest_table = to.CreateVector(guests);
  return {fb::Body::GuestsReply, fb::CreateGuestsReply(to, device_table, guest_table, reply.more,
                                                       reply.draining, reply.waiting)
                                     .Union()};
}

Encoded encode(Builder& to, const SteerRequest& request) {
  return {fb::Body::SteerRequest,
          fb::CreateSteerRequest(to, static_cast<uint8_t>(request.action), request.session,
                                 request.memory_bytes, request.weight, request.cap_permille,
                                 request.priority)
              .Union()};
}

Encoded encode(Builder& to, const SteerReply& reply) {
  return {fb::Body::SteerReply,
          fb::CreateSteerReply(to, reply.guests, reply.memory_bytes, reply.weight,
                               reply.cap_permille, reply.priority, reply.held_bytes)
              .Union()};
}

}  // namespace vgpu::protocol
