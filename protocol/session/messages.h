// Control messages as plain values, and their coding.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_SESSION_MESSAGES_H_
#define VGPU_PROTOCOL_SESSION_MESSAGES_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "protocol/guest_limits.h"
#include "protocol/limits.h"
#include "protocol/ring/layout.h"
#include "protocol/session/admin_messages.h"

namespace vgpu::protocol {

inline constexpr uint32_t kHelloMagic = 0x48504776;  // "vGPH"

struct AddressRange {
  uint64_t base = 0;
  uint64_t bytes = 0;
  bool operator==(const AddressRange&) const = default;
};

// What a guest holds for host memory behind a range of device addresses that it offers.
constexpr AddressRange host_range_behind(const AddressRange& device_range) {
  return {device_range.base + device_range.bytes, kHostRangeBytes};
}

// One of `parts` pieces of a range, for servers that serve several guests in one address space.
constexpr AddressRange part_of(const AddressRange& range, uint32_t part, uint32_t parts) {
  return {range.base + range.bytes / parts * part, range.bytes / parts};
}
// Whether `range` is all of `whole`, or one of so many pieces that whole GiB are in each.
constexpr bool is_part_of(const AddressRange& range, const AddressRange& whole) {
  constexpr uint64_t kStep = uint64_t{1} << 30;
  if (range == whole) return true;
  return range.bytes != 0 && range.bytes <= whole.bytes && range.bytes % kStep == 0 &&
         range.base >= whole.base && range.base - whole.base <= whole.bytes - range.bytes &&
         (range.base - whole.base) % range.bytes == 0;
}

// The part of the chosen range that is for device `index` of `count`; both sides cut it so. The
// upper half is for what the application reserves.
constexpr AddressRange range_of_device(const AddressRange& range, size_t index, size_t count) {
  constexpr uint64_t kStep = uint64_t{1} << 30;
  const uint64_t bytes = range.bytes / 2 / count / kStep * kStep;
  return {range.base + index * bytes, bytes};
}

// The part that the application reserves itself (cuMemAddressReserve), for memory of any device.
constexpr AddressRange range_to_reserve(const AddressRange& range) {
  return {range.base + range.bytes / 2, range.bytes / 2};
}

enum HelloFlags : uint32_t {
  kHelloForwardAllocator = 1,  // asks for AllocatorMode::kForward (VGPU_ALLOCATOR=forward)
  kHelloDevicesListed = 2,     // `visible_devices` means something, even when it is empty
  kHelloPciOrder = 4,          // devices are numbered by PCI address (CUDA_DEVICE_ORDER)
  kHelloRemote = 8,            // on another host: no memory in place, no descriptors
  kHelloRegion = 16,           // the channel's memory follows, in a RegionOffer
};

// Who chooses device addresses (docs/memory.md).
enum class AllocatorMode : uint8_t {
  kReserved = 1,  // A: the guest, in a range that both sides hold
  kSlabs = 2,     // B: the guest, in slabs that the driver placed
  kForward = 3,   // C: the driver, one round trip each
};

struct Hello {
  uint32_t magic = kHelloMagic;
  uint32_t protocol_version = kProtocolVersion;
  uint64_t wire_hash = 0;
  int32_t pid = 0;
  std::string executable;
  std::string label;
  uint64_t memory_bytes = 0;  // on each device; 0 = default
  std::vector<AddressRange> device_ranges;
  uint32_t flags = 0;
  std::string shim_version;
  std::string devices;          // of the server's, as VGPU_DEVICES says; empty: as the server likes
  std::string visible_devices;  // of these, as CUDA_VISIBLE_DEVICES says
  std::string tenant, remote;   // said by the server's gate of a remote guest; see control.fbs
  std::string profile;          // of the server's; empty: the default one
  std::string token;            // of the tenant; vgpud takes it out before it hands a hello on
  uint32_t weight = 0;          // 0 here and below: as the profile says
  uint32_t cap_permille = 0;
  uint32_t priority = 0;  // 1 + scheduler::PriorityClass
};

// What is said of each pair of a guest's devices: whether the one can access the other's memory,
// then the attributes of the pair by number of CUdevice_P2PAttribute.
inline constexpr int kPeerFacts = 6;
inline constexpr int32_t kPeerFactUnknown = -1;  // the driver knows no such attribute

struct DeviceSnapshot {
  std::string name;
  std::array<uint8_t, 16> uuid{};
  std::string pci_bus_id;
  std::vector<int32_t> attributes;  // by CUdevice_attribute
  std::vector<uint64_t> limits;     // by CUlimit
  uint64_t memory_bytes = 0;        // granted on this device
  std::vector<int32_t> peers;       // kPeerFacts for each device of the guest
};

struct HelloReply {
  uint32_t protocol_version = kProtocolVersion;
  uint64_t wire_hash = 0;
  std::string server_version;
  std::string driver;
  int32_t driver_version = 0;
  uint64_t session = 0;
  int32_t server_pid = 0;
  uint64_t memory_bytes = 0;            // granted on the first device
  std::vector<DeviceSnapshot> devices;  // the guest's, in its order
  AddressRange device_range;
  AllocatorMode allocator = AllocatorMode::kReserved;
  ChannelSizes sizes;
  AddressRange host_range;  // where cuMemHostAlloc puts memory, on both sides; bytes 0: nowhere
  GuestLimits limits;       // of what the guest may hold
  BellKind bell = BellKind::kFutex;
  uint64_t channel_offset = 0;  // in the memory that comes with the reply
};

struct Refusal {
  int32_t code = 0;  // CUresult
  std::string text;
};

struct InfoRequest {};

struct GuestInfo {
  uint64_t session = 0;
  int32_t pid = 0;
  std::string executable;
  std::string label;
  uint64_t granted_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t uptime_ms = 0;
  std::vector<uint8_t> devices;  // places in InfoReply::devices; the sums above are of all
  std::string tenant = {};
  std::string remote = {};  // empty: a local guest
};

struct DeviceUse {
  std::string name;
  uint64_t memory_bytes = 0;
  uint64_t granted_bytes = 0;
  std::string uuid;             // "GPU-…"
  std::string pci_bus_id;       // dddd:bb:dd.f
  uint64_t capacity_bytes = 0;  // what can be granted of it
};

struct NetworkUse {
  std::string address;
  std::string public_key;
  uint32_t guests = 0, connections = 0;
  uint64_t attached = 0, refused = 0, strangers = 0, malformed = 0;
};

struct InfoReply {
  std::string server_version;
  std::string driver;
  int32_t driver_version = 0;
  int32_t server_pid = 0;
  uint64_t uptime_ms = 0;
  std::vector<DeviceUse> devices;
  std::vector<GuestInfo> guests;
  std::string driver_path;
  std::string driver_reason;  // why this driver
  std::vector<NetworkUse> networks;
};

struct StopRequest {
  bool force = false;
};

struct StopReply {
  uint32_t guests_left = 0;
};

// --- over a network: what a guest and the server's gate say to each other (docs/network.md)

// Proves to the session that a data connection is its guest's; given once.
using Secret = std::array<uint8_t, 32>;

struct NetAttach {
  Hello hello;
  std::string provider;             // of the data connection; empty: tcp
  bool require_encryption = false;  // the guest wants no data sent in the clear
  uint32_t grace_ms = 0;            // of silence, that the guest wishes for; 0: the server's
};

struct NetAttached {
  HelloReply reply;
  std::string provider;
  std::vector<uint8_t> address;  // in the provider's form; at most kDataAddressBytesMax
  Secret secret{};
  uint32_t beat_ms = 0;   // the guest is to be heard this often
  uint32_t grace_ms = 0;  // how long either side may be silent, or without data connection
};

// Both ways: the guest asks, the answer repeats the number.
struct NetBeat {
  uint64_t session = 0;
  uint64_t number = 0;
};

struct NetDetach {
  uint64_t session = 0;
};

// The gate's word that a session is over.
struct NetEnded {
  uint64_t session = 0;
  std::string text;
};

// Another data connection for a session that has lost its own. Epochs only rise.
struct NetResume {
  uint64_t session = 0;
  uint32_t epoch = 0;
};

struct NetResumed {
  uint64_t session = 0;
  uint32_t epoch = 0;
  std::vector<uint8_t> address;  // at most kDataAddressBytesMax
  Secret secret{};
};

using Message =
    std::variant<Hello, HelloReply, Refusal, InfoRequest, InfoReply, StopRequest, StopReply,
                 NetAttach, NetAttached, NetBeat, NetDetach, NetEnded, GuestsRequest, GuestsReply,
                 SteerRequest, SteerReply, NetResume, NetResumed>;

// What a message is called in logs.
const char* message_name(const Message& message);

// The bytes of a message. Texts are cut at their limits.
std::vector<uint8_t> encode_message(const Message& message);

// Verifies structure and ranges of received bytes. kMalformed says what is wrong. Texts come out
// with bytes that are not printable replaced by '?', as they go to logs. A Hello of another
// protocol version is returned as far as it can be read: check_hello refuses it.
Result<Message> decode_message(std::span<const uint8_t> bytes);

struct ReceivedMessage {
  Message message;
  std::vector<UniqueFd> descriptors;
};

// One message over a control socket; failures as in send_frame and receive_frame, and kMalformed.
Status send_message(int socket, const Message& message, std::span<const int> descriptors = {});
Result<ReceivedMessage> receive_message(int socket, int timeout_ms);

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_SESSION_MESSAGES_H_
