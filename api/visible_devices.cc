// Reading lists of devices.
// SPDX-License-Identifier: Apache-2.0
#include "api/visible_devices.h"

#include <algorithm>
#include <string_view>

#include "base/env.h"

namespace vgpu {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The device that one entry names; -1 for none.
int device_of(std::string_view entry, std::span<const std::string> uuids) {
  if (const auto number = parse_integer(entry)) {
    const bool known = *number >= 0 && static_cast<uint64_t>(*number) < uuids.size();
    return known ? static_cast<int>(*number) : -1;
  }
  if (entry.size() < 5 || entry.substr(0, 4) != "GPU-") return -1;
  int found = -1;
  for (size_t i = 0; i < uuids.size(); ++i) {
    if (std::string_view(uuids[i]).substr(0, entry.size()) != entry) continue;
    if (found >= 0) return -1;  // the beginning of two
    found = static_cast<int>(i);
  }
  return found;
}

}  // namespace

std::string device_uuid_text(const unsigned char* uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[uuid[i] >> 4];
    text += kDigits[uuid[i] & 15];
  }
  return text;
}

std::vector<int> visible_devices(const char* list, std::span<const std::string> uuids) {
  std::vector<int> seen;
  if (list == nullptr) {
    for (size_t i = 0; i < uuids.size(); ++i) seen.push_back(static_cast<int>(i));
    return seen;
  }
  std::string_view rest(list);
  while (true) {
    const size_t comma = rest.find(',');
    const int device = device_of(trimmed(rest.substr(0, comma)), uuids);
    if (device < 0) return seen;
    if (std::find(seen.begin(), seen.end(), device) != seen.end()) return {};
    seen.push_back(device);
    if (comma == std::string_view::npos) return seen;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace vgpu
