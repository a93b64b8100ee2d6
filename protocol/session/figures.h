// What a process may know of its own use of the devices, asked without becoming a guest.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_SESSION_FIGURES_H_
#define VGPU_PROTOCOL_SESSION_FIGURES_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace vgpu::protocol {

inline constexpr size_t kOwnGuestsMax = 64;  // in one answer; the rest is cut
inline constexpr size_t kFactsMax = 64;      // of one device, and engines of one guest

// Numbers of a device that a driver's attributes hold; 0 where the driver knows none.
enum class DeviceFact : uint8_t {
  kComputeMajor,
  kComputeMinor,
  kMultiprocessors,
  kClockKhz,
  kMemoryClockKhz,
  kMemoryBusBits,
  kEccEnabled,
};
inline constexpr size_t kDeviceFacts = 7;

// Answered for the kernel's credentials of the asking process; see docs/monitoring.md for whose
// guests are its own.
struct FiguresRequest {
  std::string label;           // only guests of this name; empty: of all names
  uint64_t memory_bytes = 0;   // as in Hello
  std::string devices;         // as in Hello
  std::string profile, token;  // as in Hello
};

struct OwnDevice {
  std::string name;
  std::array<uint8_t, 16> uuid{};
  std::string pci_bus_id;  // dddd:bb:dd.f
  std::vector<int32_t> facts;
  uint64_t memory_bytes = 0;  // granted to the caller's guests; without any, what one would get
  uint64_t used_bytes = 0;    // by them
  int32_t fact(DeviceFact which) const {
    const auto at = static_cast<size_t>(which);
    return at < facts.size() ? facts[at] : 0;
  }
};

struct OwnUse {
  uint8_t device = 0;  // place in FiguresReply::devices
  uint64_t granted_bytes = 0;
  uint64_t used_bytes = 0;
};

struct OwnGuest {
  uint64_t session = 0;
  int32_t pid = 0;                  // as the caller sees it
  bool caller = false;              // it is the asking process
  std::vector<OwnUse> uses;         // one for each of its devices
  std::vector<uint64_t> engine_ns;  // device time by engine, of all its devices together
};

struct FiguresReply {
  std::string server_version;
  std::string driver;          // "soft", "nvidia" or a path
  int32_t driver_version = 0;  // 0: the server does not know its devices yet
  std::string driver_release;  // of the kernel's part, as nvidia-smi shows it; empty: there is none
  uint64_t now_ns = 0;         // CLOCK_MONOTONIC of the server
  std::vector<OwnDevice> devices;  // what a guest would see without CUDA_VISIBLE_DEVICES
  std::vector<OwnGuest> guests;    // at most kOwnGuestsMax
};

// Control messages of their own, beside those of messages.h, coded and checked like them.
// kNotFound: it is another message.
std::vector<uint8_t> encode_figures(const FiguresRequest& request);
std::vector<uint8_t> encode_figures(const FiguresReply& reply);
Result<FiguresRequest> decode_figures_request(std::span<const uint8_t> bytes);
Result<FiguresReply> decode_figures_reply(std::span<const uint8_t> bytes);

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_SESSION_FIGURES_H_
