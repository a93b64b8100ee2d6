// Reading a guest's counts.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/stats.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace vgpu::tools {
namespace {

std::optional<uint64_t> number(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<uint64_t>();
}

}  // namespace

GuestStats parse_stats(const std::string& text) {
  GuestStats stats;
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return stats;
  stats.round_trips = number(json, "round_trips");
  stats.records = number(json, "records");
  stats.launches = number(json, "launches");
  return stats;
}

GuestStats read_stats(const std::string& file) {
  std::ifstream stream(file);
  return parse_stats({std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()});
}

std::string count_text(const std::optional<uint64_t>& count) {
  return count ? std::to_string(*count) : "-";
}

}  // namespace vgpu::tools
