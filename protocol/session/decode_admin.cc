// Listing and steering guests: range checks, and from verified tables to plain values.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "protocol/session/decode_message.h"
#include "protocol/session/tables.h"

namespace vgpu::protocol {
namespace {

Status take_device(const fb::DeviceState& table, DeviceState* device) {
  if (!take_text(table.name(), kNameBytesMax, &device->name) ||
      !take_text(table.uuid(), kNameBytesMax, &device->uuid)) {
    return malformed("device name");
  }
  device->memory_bytes = table.memory_bytes();
  device->capacity_bytes = table.capacity_bytes();
  device->granted_bytes = table.granted_bytes();
  return ok_status();
}

bool take_words(const flatbuffers::Vector<uint64_t>* from, size_t count,
                std::vector<uint64_t>* to) {
  if (size_of(from) != count || !aligned(from)) return false;
  if (from != nullptr) to->assign(from->begin(), from->end());
  return true;
}

void take_figures(const fb::GuestFigures& from, GuestState* guest) {
  guest->kernels = from.kernels();
  guest->copied_bytes[0] = from.copied_to();
  guest->copied_bytes[1] = from.copied_from();
  guest->refused_allocations = from.refused_allocations();
  for (size_t i = 0; i < kEngineFigures; ++i)
    guest->device_ns[i] = from.device_ns()->Get(static_cast<flatbuffers::uoffset_t>(i));
  guest->wait_ns = from.wait_ns();
  guest->throttled_ns = from.throttled_ns();
}

Status take_guest(const fb::GuestState& table, size_t devices, GuestState* guest) {
  guest->session = table.session();
  guest->pid = table.pid();
  guest->uid = table.uid();
  if (!take_text(table.executable(), kNameBytesMax, &guest->executable) ||
      !take_text(table.label(), kNameBytesMax, &guest->label) ||
      !take_text(table.tenant(), kNameBytesMax, &guest->tenant) ||
      !take_text(table.profile(), kNameBytesMax, &guest->profile)) {
    return malformed("name of a guest");
  }
  guest->uptime_ms = table.uptime_ms();
  const size_t count = size_of(table.devices());
  if (count > kDevicesMax) return malformed("devices of a guest");
  if (count != 0) guest->devices.assign(table.devices()->begin(), table.devices()->end());
  if (std::any_of(guest->devices.begin(), guest->devices.end(),
                  [&](uint8_t place) { return place >= devices; })) {
    return malformed("device of a guest");
  }
  if (!take_words(table.granted_bytes(), count, &guest->granted_bytes) ||
      !take_words(table.used_bytes(), count, &guest->used_bytes)) {
    return malformed("memory of a guest");
  }
  guest->weight = table.weight();
  guest->cap_permille = table.cap_permille();
  guest->priority = table.priority();
  guest->mode = table.mode();
  if (table.figures() != nullptr) take_figures(*table.figures(), guest);
  return ok_status();
}

}  // namespace

Result<Message> decode_guests_reply(const fb::GuestsReply& table) {
  GuestsReply reply;
  reply.more = table.more();
  reply.draining = table.draining();
  reply.waiting = table.waiting();
  if (size_of(table.devices()) > kDevicesMax) return malformed("number of devices");
  if (size_of(table.guests()) > kGuestsPageMax) return malformed("number of guests");
  reply.devices.resize(size_of(table.devices()));
  for (size_t i = 0; i < reply.devices.size(); ++i) {
    const auto index = static_cast<flatbuffers::uoffset_t>(i);
    VGPU_RETURN_IF_ERROR(take_device(*table.devices()->Get(index), &reply.devices[i]));
  }
  reply.guests.resize(size_of(table.guests()));
  for (size_t i = 0; i < reply.guests.size(); ++i) {
    const auto index = static_cast<flatbuffers::uoffset_t>(i);
    VGPU_RETURN_IF_ERROR(
        take_guest(*table.guests()->Get(index), reply.devices.size(), &reply.guests[i]));
  }
  // Whoever asks for the next page must come to an end.
  if (reply.more && reply.guests.empty()) return malformed("page of guests");
  return Message(std::move(reply));
}

Result<Message> decode_steer_request(const fb::SteerRequest& table) {
  SteerRequest request;
  if (table.action() < static_cast<uint8_t>(SteerAction::kLimit) ||
      table.action() > static_cast<uint8_t>(SteerAction::kUndrain)) {
    return malformed("action");
  }
  request.action = static_cast<SteerAction>(table.action());
  request.session = table.session();
  request.memory_bytes = table.memory_bytes();
  request.weight = table.weight();
  request.cap_permille = table.cap_permille();
  request.priority = table.priority();
  return Message(request);
}

Result<Message> decode_steer_reply(const fb::SteerReply& table) {
  SteerReply reply;
  reply.guests = table.guests();
  reply.memory_bytes = table.memory_bytes();
  reply.weight = table.weight();
  reply.cap_permille = table.cap_permille();
  reply.priority = table.priority();
  reply.held_bytes = table.held_bytes();
  return Message(reply);
}

}  // namespace vgpu::protocol
