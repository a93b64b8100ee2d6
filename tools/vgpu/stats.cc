// Reading a guest's counts.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/stats.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

namespace vgpu::tools {
namespace {

std::optional<uint64_t> number(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<uint64_t>();
}

void add(std::optional<uint64_t>* sum, const std::optional<uint64_t>& value) {
  if (value) *sum = sum->value_or(0) + *value;
}

}  // namespace

GuestStats parse_stats(const std::string& text) {
  GuestStats stats;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    add(&stats.round_trips, number(json, "round_trips"));
    add(&stats.records, number(json, "records"));
    add(&stats.launches, number(json, "launches"));
    add(&stats.ring_bytes, number(json, "ring_bytes"));
  }
  return stats;
}

GuestStats take_stats(const std::string& file) {
  std::ifstream stream(file);
  GuestStats stats =
      parse_stats({std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()});
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  return stats;
}

std::string count_text(const std::optional<uint64_t>& count) {
  return count ? std::to_string(*count) : "-";
}

}  // namespace vgpu::tools
