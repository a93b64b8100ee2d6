// Reading an assignment, granting its devices, opening its channel.
// SPDX-License-Identifier: Apache-2.0
#include "server/guest_papers.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "base/clock.h"

namespace vgpu::server {

Result<GuestPapers> GuestPapers::read(protocol::ControlFrame frame, size_t descriptors) {
  GuestPapers guest;
  if (!read_front(frame.bytes, &guest.assign) || frame.descriptors.size() != descriptors) {
    return Status(StatusCode::kMalformed, "vgpud's message is of another version");
  }
  guest.connection = std::move(frame.descriptors[0]);
  guest.board = std::move(frame.descriptors[1]);
  guest.bell = std::move(frame.descriptors[2]);
  std::move(frame.descriptors.begin() + 3, frame.descriptors.end(), std::back_inserter(guest.more));
  Result<protocol::Message> message =
      protocol::decode_message(std::span<const uint8_t>(frame.bytes).subspan(sizeof(WorkerAssign)));
  if (!message.ok()) return message.status();
  auto* hello = std::get_if<protocol::Hello>(&*message);
  if (hello == nullptr) return Status(StatusCode::kMalformed, "not a hello");
  guest.hello = std::move(*hello);
  return guest;
}

Liveness GuestPapers::liveness() const {
  Liveness liveness;
  liveness.started_ms = monotonic_ns() / 1'000'000;
  liveness.adopt.session = assign.session;
  liveness.adopt.grants = assign.grants;
  liveness.adopt.share = assign.share;
  liveness.adopt.guest_pid = assign.guest_pid;
  liveness.adopt.guest_uid = assign.guest_uid;
  liveness.adopt.record = assign.record;
  set_text(liveness.adopt.executable, hello.executable);
  set_text(liveness.adopt.label, hello.label);
  set_text(liveness.adopt.remote, hello.remote);
  if (assign.guest_pid > 0) {
    Result<UniqueFd> pidfd = protocol::open_pidfd(assign.guest_pid);
    if (pidfd.ok()) liveness.guest = std::move(pidfd).value();
  }
  return liveness;
}

bool GuestPapers::is_gone() const {
  if (assign.guest_pid <= 0) return false;
  const Result<UniqueFd> pidfd = protocol::open_pidfd(assign.guest_pid);
  return !pidfd.ok() && pidfd.status().os_error() == ESRCH;
}

Status grant_devices(Devices* devices, const WorkerGrants& grants) {
  std::vector<DeviceGrant> wanted;
  for (uint32_t i = 0; i < std::min<uint32_t>(grants.count, protocol::kDevicesMax); ++i)
    wanted.push_back({grants.device[i], grants.bytes[i]});
  return devices->grant(wanted);
}

Result<std::unique_ptr<protocol::WorkerChannel>> open_channel(const Devices& devices,
                                                              UniqueFd connection,
                                                              const protocol::Hello& hello,
                                                              protocol::HelloReply* reply) {
  if ((hello.flags & protocol::kHelloRegion) == 0) {
    if ((hello.flags & protocol::kHelloRemote) == 0)
      reply->host_range = claim_host_range(devices, hello, reply->device_range);
    return protocol::answer_hello(std::move(connection), *reply);
  }
  constexpr int kRegionTimeoutMs = 2000;  // it was sent with the hello: it is here or never
  Result<protocol::RegionOffer> offer =
      protocol::take_region(connection.get(), reply, kRegionTimeoutMs);
  if (!offer.ok()) return offer.status();
  return protocol::answer_hello_in(std::move(connection), *reply, std::move(offer).value());
}

}  // namespace vgpu::server
