// Both halves of attaching.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/session/handshake.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "protocol/transport/control_socket.h"

namespace vgpu::protocol {
namespace {

std::string side(const char* name, const std::string& version, uint32_t protocol, uint64_t wire) {
  char numbers[80];
  std::snprintf(numbers, sizeof(numbers), "protocol %u, wire %016" PRIx64, protocol, wire);
  return std::string(name) + (version.empty() ? "" : " " + version) + " has " + numbers;
}

Attachment failed(Status status, int32_t cuda_error) {
  Attachment attachment;
  attachment.status = std::move(status);
  attachment.cuda_error = cuda_error;
  return attachment;
}

// Anything that goes wrong on the way to the server looks to the program like a machine without a
// GPU.
Attachment unreachable(Status status) { return failed(std::move(status), kCudaNoDevice); }

}  // namespace

int32_t cuda_error_of(StatusCode code) {
  switch (code) {
    case StatusCode::kMismatch:
      return kCudaSystemDriverMismatch;
    case StatusCode::kPermissionDenied:
      return kCudaNotPermitted;
    case StatusCode::kResourceExhausted:
      return kCudaOutOfMemory;
    case StatusCode::kMalformed:
    case StatusCode::kInvalidArgument:
      return kCudaInvalidValue;
    case StatusCode::kUnavailable:
    case StatusCode::kNotFound:
      return kCudaNoDevice;
    default:
      return kCudaSystemNotReady;
  }
}

Status check_reply(const Hello& hello, const HelloReply& reply) {
  if (reply.protocol_version != hello.protocol_version || reply.wire_hash != hello.wire_hash) {
    return Status(
        StatusCode::kMismatch,
        side("guest", hello.shim_version, hello.protocol_version, hello.wire_hash) + "; " +
            side("server", reply.server_version, reply.protocol_version, reply.wire_hash));
  }
  const auto& offered = hello.device_ranges;
  const auto has = [&](const AddressRange& range) { return is_part_of(reply.device_range, range); };
  if (reply.allocator == AllocatorMode::kReserved &&
      std::none_of(offered.begin(), offered.end(), has)) {
    return Status(StatusCode::kMalformed, "server chose an address range that was not offered");
  }
  const auto holds = [&](const AddressRange& range) {
    return is_part_of(reply.host_range, host_range_behind(range));
  };
  if (reply.host_range.bytes != 0 && std::none_of(offered.begin(), offered.end(), holds)) {
    return Status(StatusCode::kMalformed, "server chose a range for host memory that is not ours");
  }
  return ok_status();
}

namespace {

// The server sends the memory; the device's registers where the guest rings; the page of the epoch
// where it is rung for.
Result<BellParts> parts_of(BellKind bell, const std::vector<UniqueFd>& descriptors) {
  BellParts parts;
  if (bell == BellKind::kHostRung || bell == BellKind::kRung) {
    Result<Mapping> doorbell = Mapping::map_shared(descriptors[1].get(), kPageBytes);
    if (!doorbell.ok()) return doorbell.status();
    parts.doorbell = std::move(doorbell).value();
  }
  if (bell == BellKind::kRung) {
    Result<Mapping> epoch = Mapping::map_shared(descriptors[2].get(), kPageBytes);
    if (!epoch.ok()) return epoch.status();
    parts.epoch = std::move(epoch).value();
  }
  std::byte* const registers = parts.doorbell.data();
  parts.bell = Bell::of_guest(
      reinterpret_cast<std::atomic<uint32_t>*>(parts.epoch.data()),
      registers == nullptr ? nullptr
                           : reinterpret_cast<volatile uint32_t*>(registers + kDoorbellOffset),
      kHostPeer << 16);
  return parts;
}

Result<std::unique_ptr<Transport>> guest_transport(UniqueFd connection, const HelloReply& reply,
                                                   const std::vector<UniqueFd>& descriptors) {
  constexpr size_t kWanted[] = {1, 1, 2, 3};  // by BellKind
  if (descriptors.size() != kWanted[static_cast<size_t>(reply.bell)]) {
    return Status(StatusCode::kMalformed, "server sent no memory with its answer");
  }
  const int memory = descriptors[0].get();
  if (reply.bell == BellKind::kFutex)
    return make_shm(Role::kGuest, std::move(connection), memory, reply.sizes);
  Result<BellParts> parts = parts_of(reply.bell, descriptors);
  if (!parts.ok()) return parts.status();
  return make_region(Role::kGuest, std::move(connection), memory, reply.channel_offset, reply.sizes,
                     std::move(parts).value());
}

}  // namespace

Attachment attach(const Address& address, const Hello& hello, int timeout_ms) {
  if (address.kind != Address::Kind::kUnix) {
    return unreachable(Status(StatusCode::kNotSupported,
                              address.to_string() + " needs a server inside this process"));
  }
  Result<UniqueFd> connection = connect_unix(address.path);
  if (!connection.ok()) return unreachable(connection.status());
  return attach_over(std::move(connection).value(), hello, timeout_ms);
}

Attachment attach_over(UniqueFd connection, const Hello& hello, int timeout_ms) {
  if (Status sent = send_message(connection.get(), hello); !sent.ok()) return unreachable(sent);
  Result<ReceivedMessage> received = receive_message(connection.get(), timeout_ms);
  if (!received.ok()) return unreachable(received.status());
  if (const auto* refusal = std::get_if<Refusal>(&received->message)) {
    return failed(Status(StatusCode::kRefused, "server refused: " + refusal->text), refusal->code);
  }
  auto* reply = std::get_if<HelloReply>(&received->message);
  if (reply == nullptr) {
    return unreachable(Status(StatusCode::kMalformed, std::string("server answered hello with ") +
                                                          message_name(received->message)));
  }
  if (Status status = check_reply(hello, *reply); !status.ok()) {
    const int32_t code = cuda_error_of(status.code());
    return failed(std::move(status), code);
  }
  Result<std::unique_ptr<Transport>> transport =
      guest_transport(std::move(connection), *reply, received->descriptors);
  if (!transport.ok()) return unreachable(transport.status());
  Result<std::unique_ptr<GuestChannel>> channel = GuestChannel::open(std::move(transport).value());
  if (!channel.ok()) return unreachable(channel.status());
  Attachment attachment;
  attachment.reply = std::move(*reply);
  attachment.channel = std::move(channel).value();
  return attachment;
}

Status check_hello(const Hello& hello, uint64_t wire_hash, const std::string& server_version) {
  if (hello.magic != kHelloMagic) {
    return Status(StatusCode::kMalformed, "hello without its magic number");
  }
  if (hello.protocol_version == kProtocolVersion && hello.wire_hash == wire_hash) {
    return ok_status();
  }
  return Status(StatusCode::kMismatch,
                side("guest", hello.shim_version, hello.protocol_version, hello.wire_hash) + "; " +
                    side("server", server_version, kProtocolVersion, wire_hash));
}

Refusal refusal_for(const Status& status) {
  return Refusal{cuda_error_of(status.code()), status.to_string()};
}

Result<RegionOffer> take_region(int connection, HelloReply* reply, int timeout_ms) {
  Result<RegionOffer> offer = receive_region_offer(connection, timeout_ms);
  if (!offer.ok()) return offer.status();
  reply->sizes = ChannelSizes::fitting(offer->bytes);
  VGPU_RETURN_IF_ERROR(reply->sizes.check());
  reply->channel_offset = offer->offset;
  reply->bell = offer->bell;
  reply->host_range = {};
  return offer;
}

Result<std::unique_ptr<WorkerChannel>> answer_hello_in(UniqueFd connection, const HelloReply& reply,
                                                       RegionOffer offer, SpinMode spin) {
  BellParts parts;
  parts.event = std::move(offer.event);
  parts.bell = Bell::of_worker(reply.bell != BellKind::kPolled, parts.event.get());
  const int socket = connection.get();
  Result<std::unique_ptr<Transport>> transport =
      make_region(Role::kWorker, std::move(connection), offer.region.get(), offer.offset,
                  reply.sizes, std::move(parts));
  if (!transport.ok()) return transport.status();
  Result<std::unique_ptr<WorkerChannel>> channel =
      WorkerChannel::create(std::move(transport).value(), spin);
  if (!channel.ok()) return channel.status();
  VGPU_RETURN_IF_ERROR(send_message(socket, reply));
  return std::move(channel).value();
}

Result<std::unique_ptr<WorkerChannel>> answer_hello(UniqueFd connection, const HelloReply& reply,
                                                    SpinMode spin) {
  VGPU_RETURN_IF_ERROR(reply.sizes.check());
  Result<UniqueFd> memory = make_sealed_memory(reply.sizes.total_bytes(), "vgpu-channel");
  if (!memory.ok()) return memory.status();
  const int socket = connection.get();
  Result<std::unique_ptr<Transport>> transport =
      make_shm(Role::kWorker, std::move(connection), memory->get(), reply.sizes);
  if (!transport.ok()) return transport.status();
  // The identity is in place before the guest can look.
  Result<std::unique_ptr<WorkerChannel>> channel =
      WorkerChannel::create(std::move(transport).value(), spin);
  if (!channel.ok()) return channel.status();
  const int descriptor = memory->get();
  VGPU_RETURN_IF_ERROR(send_message(socket, reply, std::span<const int>(&descriptor, 1)));
  return std::move(channel).value();
}

}  // namespace vgpu::protocol
