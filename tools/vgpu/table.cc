// Laying out tables and numbers.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/table.h"

#include <algorithm>
#include <cstdio>

namespace vgpu::tools {
namespace {

std::string padded(const std::string& text, size_t width, Table::Align align) {
  const size_t have = display_width(text);
  const std::string blanks(have < width ? width - have : 0, ' ');
  return align == Table::Align::kLeft ? text + blanks : blanks + text;
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

size_t display_width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = display_width(columns_[i].head);
    for (const auto& row : rows_) width = std::max(width, display_width(row[i]));
    widths.push_back(width);
  }
  std::string head, rule, body;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const char* gap = i == 0 ? "  " : "   ";
    head += gap + padded(columns_[i].head, widths[i], columns_[i].align);
    rule += gap + std::string(widths[i], '-');
  }
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += (i == 0 ? "  " : "   ") + padded(row[i], widths[i], columns_[i].align);
    }
    body += trimmed(line);
  }
  return trimmed(head) + trimmed(rule) + body;
}

std::string number_text(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string bytes_text(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  const bool whole = value == static_cast<double>(static_cast<uint64_t>(value));
  return number_text(value, whole ? 0 : 1) + " " + kUnits[unit];
}

std::string duration_text(double nanoseconds) {
  if (nanoseconds < 100) return number_text(nanoseconds, 1) + " ns";
  if (nanoseconds < 1e3) return number_text(nanoseconds, 0) + " ns";
  if (nanoseconds < 1e6) return number_text(nanoseconds / 1e3, 2) + " us";
  if (nanoseconds < 1e9) return number_text(nanoseconds / 1e6, nanoseconds < 1e8 ? 2 : 0) + " ms";
  return number_text(nanoseconds / 1e9, 2) + " s";
}

std::string age_text(uint64_t milliseconds) {
  const uint64_t seconds = milliseconds / 1000;
  if (seconds < 120) return std::to_string(seconds) + " s";
  if (seconds < 7200) return std::to_string(seconds / 60) + " min";
  char text[64];
  std::snprintf(text, sizeof(text), "%llu h %02llu min",
                static_cast<unsigned long long>(seconds / 3600),
                static_cast<unsigned long long>(seconds / 60 % 60));
  return text;
}

std::string ratio_text(double value) { return number_text(value, 2) + "x"; }

}  // namespace vgpu::tools
