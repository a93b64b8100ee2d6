// Parsing of settings.
// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace vgpu {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Shift of a unit: "", "B", "K", "KB", "KiB" and so on up to T.
std::optional<int> unit_shift(std::string_view unit) {
  if (unit.empty() || same_word(unit, "b")) return 0;
  int shift = 0;
  switch (lower(unit.front())) {
    case 'k':
      shift = 10;
      break;
    case 'm':
      shift = 20;
      break;
    case 'g':
      shift = 30;
      break;
    case 't':
      shift = 40;
      break;
    default:
      return std::nullopt;
  }
  unit.remove_prefix(1);
  if (unit.empty() || same_word(unit, "b") || same_word(unit, "ib")) return shift;
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> parse_size(std::string_view text) {
  text = trimmed(text);
  const char* const end = text.data() + text.size();
  uint64_t whole = 0;
  auto [after, error] = std::from_chars(text.data(), end, whole);
  if (error != std::errc()) return std::nullopt;
  double fraction = 0;
  if (after != end && *after == '.') {
    double scale = 0.1;
    const char* digit = after + 1;
    for (; digit != end && *digit >= '0' && *digit <= '9'; ++digit, scale /= 10) {
      fraction += scale * (*digit - '0');
    }
    if (digit == after + 1) return std::nullopt;
    after = digit;
  }
  const auto shift = unit_shift(trimmed({after, static_cast<size_t>(end - after)}));
  if (!shift || (*shift > 0 && (whole >> (64 - *shift)) != 0)) return std::nullopt;
  if (*shift == 0 && fraction != 0) return std::nullopt;
  const uint64_t part =
      static_cast<uint64_t>(std::llround(fraction * static_cast<double>(uint64_t{1} << *shift)));
  const uint64_t base = whole << *shift;
  if (base + part < base) return std::nullopt;
  return base + part;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  text = trimmed(text);
  int radix = 10;
  if (text.size() > 2 && text[0] == '0' && lower(text[1]) == 'x') {
    radix = 16;
    text.remove_prefix(2);
    if (text.front() == '-') return std::nullopt;
  }
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value, radix);
  if (error != std::errc() || after != end) return std::nullopt;
  return value;
}

std::optional<bool> parse_bool(std::string_view text) {
  text = trimmed(text);
  for (const char* word : {"1", "true", "yes", "on"}) {
    if (same_word(text, word)) return true;
  }
  for (const char* word : {"0", "false", "no", "off"}) {
    if (same_word(text, word)) return false;
  }
  return std::nullopt;
}

std::optional<std::string_view> env_text(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::string_view(text);
}

uint64_t env_size(const char* name, uint64_t fallback) {
  const auto text = env_text(name);
  return text ? parse_size(*text).value_or(fallback) : fallback;
}

int64_t env_integer(const char* name, int64_t fallback) {
  const auto text = env_text(name);
  return text ? parse_integer(*text).value_or(fallback) : fallback;
}

bool env_bool(const char* name, bool fallback) {
  const auto text = env_text(name);
  return text ? parse_bool(*text).value_or(fallback) : fallback;
}

}  // namespace vgpu
