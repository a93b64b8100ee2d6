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
#include "protocol/limits.h"
#include "protocol/ring/layout.h"

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

enum HelloFlags : uint32_t {
  kHelloForwardAllocator = 1,  // asks for AllocatorMode::kForward (VGPU_ALLOCATOR=forward)
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
  uint64_t memory_bytes = 0;  // 0 = default
  std::vector<AddressRange> device_ranges;
  uint32_t flags = 0;
  std::string shim_version;
};

struct DeviceSnapshot {
  std::string name;
  std::array<uint8_t, 16> uuid{};
  std::string pci_bus_id;
  std::vector<int32_t> attributes;  // by CUdevice_attribute
  std::vector<uint64_t> limits;     // by CUlimit
  uint64_t memory_bytes = 0;
};

struct HelloReply {
  uint32_t protocol_version = kProtocolVersion;
  uint64_t wire_hash = 0;
  std::string server_version;
  std::string driver;
  int32_t driver_version = 0;
  uint64_t session = 0;
  int32_t server_pid = 0;
  uint64_t memory_bytes = 0;
  std::vector<DeviceSnapshot> devices;
  AddressRange device_range;
  AllocatorMode allocator = AllocatorMode::kReserved;
  ChannelSizes sizes;
  AddressRange host_range;  // where cuMemHostAlloc puts memory, on both sides; bytes 0: nowhere
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
};

struct DeviceUse {
  std::string name;
  uint64_t memory_bytes = 0;
  uint64_t granted_bytes = 0;
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
};

struct StopRequest {
  bool force = false;
};

struct StopReply {
  uint32_t guests_left = 0;
};

using Message =
    std::variant<Hello, HelloReply, Refusal, InfoRequest, InfoReply, StopRequest, StopReply>;

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
