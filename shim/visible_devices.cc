// CUDA_VISIBLE_DEVICES.
// SPDX-License-Identifier: Apache-2.0
#include "shim/visible_devices.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include "base/env.h"

namespace vgpu::shim {
namespace {

std::string uuid_text(const protocol::DeviceSnapshot& device) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (size_t i = 0; i < device.uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[device.uuid[i] >> 4];
    text += kDigits[device.uuid[i] & 15];
  }
  return text;
}

// The device that one entry names; -1 for none.
int device_of(std::string_view entry, const protocol::HelloReply& reply) {
  if (const auto number = parse_integer(entry)) {
    return *number >= 0 && static_cast<uint64_t>(*number) < reply.devices.size()
               ? static_cast<int>(*number)
               : -1;
  }
  if (entry.size() < 5 || entry.substr(0, 4) != "GPU-") return -1;
  for (size_t i = 0; i < reply.devices.size(); ++i) {
    if (std::string_view(uuid_text(reply.devices[i])).substr(0, entry.size()) == entry)
      return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

bool device_is_visible(protocol::HelloReply& reply) {
  const char* set = std::getenv("CUDA_VISIBLE_DEVICES");
  if (set == nullptr) return !reply.devices.empty();
  // One vGPU has one device so far: the first entry says whether it is seen.
  std::string_view entry(set);
  entry = entry.substr(0, entry.find(','));
  while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
  while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
  return device_of(entry, reply) >= 0;
}

}  // namespace vgpu::shim
