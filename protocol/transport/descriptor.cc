// Tagged descriptors over the control socket.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/transport/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "protocol/transport/control_socket.h"

namespace vgpu::protocol {
namespace {

struct TagMessage {
  uint64_t magic;
  uint64_t tag;
};

struct RegionMessage {
  uint64_t magic;
  uint64_t offset;
  uint64_t bytes;
  uint64_t bell;
};
constexpr uint64_t kRegionOfferMagic = 0x6765'5250'4776'0001;

// A descriptor of the guest's choice that a worker will write to must be what it seems, and never
// make it wait.
Status take_event(int event) {
  char kind[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(event);
  const ssize_t bytes = ::readlink(link.c_str(), kind, sizeof(kind) - 1);
  if (bytes <= 0 || std::string_view(kind) != "anon_inode:[eventfd]")
    return Status(StatusCode::kMalformed, "the region's event is no eventfd");
  const int flags = ::fcntl(event, F_GETFL);
  if (flags < 0 || ::fcntl(event, F_SETFL, flags | O_NONBLOCK) != 0)
    return Status::from_errno(errno, "the region's event");
  return ok_status();
}

}  // namespace

Status send_tagged_descriptor(int socket, int fd, uint64_t tag) {
  const TagMessage message{kDescriptorMagic, tag};
  uint8_t bytes[sizeof(message)];
  std::memcpy(bytes, &message, sizeof(message));
  return send_frame(socket, bytes, std::span<const int>(&fd, 1));
}

Result<std::pair<UniqueFd, uint64_t>> receive_tagged_descriptor(int socket, int timeout_ms) {
  Result<ControlFrame> frame = receive_frame(socket, timeout_ms);
  if (!frame.ok()) return frame.status();
  TagMessage message{};
  if (frame->bytes.size() != sizeof(message) || frame->descriptors.size() != 1) {
    return Status(StatusCode::kMalformed, "expected one descriptor with its tag");
  }
  std::memcpy(&message, frame->bytes.data(), sizeof(message));
  if (message.magic != kDescriptorMagic) {
    return Status(StatusCode::kMalformed, "descriptor message without its mark");
  }
  return std::make_pair(std::move(frame->descriptors[0]), message.tag);
}

Status send_region_offer(int socket, const RegionOffer& offer) {
  const RegionMessage message{kRegionOfferMagic, offer.offset, offer.bytes,
                              static_cast<uint64_t>(offer.bell)};
  uint8_t bytes[sizeof(message)];
  std::memcpy(bytes, &message, sizeof(message));
  const int descriptors[] = {offer.region.get(), offer.event.get()};
  const size_t count = offer.event.valid() ? 2 : 1;
  return send_frame(socket, bytes, std::span<const int>(descriptors, count));
}

Result<RegionOffer> receive_region_offer(int socket, int timeout_ms) {
  Result<ControlFrame> frame = receive_frame(socket, timeout_ms);
  if (!frame.ok()) return frame.status();
  RegionMessage message{};
  const size_t count = frame->descriptors.size();
  if (frame->bytes.size() != sizeof(message) || count < 1 || count > 2) {
    return Status(StatusCode::kMalformed, "expected a region and its piece");
  }
  std::memcpy(&message, frame->bytes.data(), sizeof(message));
  if (message.magic != kRegionOfferMagic) {
    return Status(StatusCode::kMalformed, "region message without its mark");
  }
  const bool rung = message.bell == static_cast<uint64_t>(BellKind::kRung);
  if (message.bell == 0 || message.bell > static_cast<uint64_t>(BellKind::kRung) ||
      rung != (count == 2)) {
    return Status(StatusCode::kMalformed, "region message with a bell that cannot be");
  }
  RegionOffer offer;
  offer.bell = static_cast<BellKind>(message.bell);
  offer.region = std::move(frame->descriptors[0]);
  if (count == 2) {
    offer.event = std::move(frame->descriptors[1]);
    VGPU_RETURN_IF_ERROR(take_event(offer.event.get()));
  }
  offer.offset = message.offset;
  offer.bytes = message.bytes;
  return offer;
}

}  // namespace vgpu::protocol
