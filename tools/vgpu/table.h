// Plain text for people: tables, sizes and times.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_TABLE_H_
#define VGPU_TOOLS_VGPU_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace vgpu::tools {

// A table with a line under its head. Columns are as wide as their widest cell.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string head;
    Align align = Align::kRight;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty; more cells than columns are dropped.
  void add(std::vector<std::string> cells);
  // Text of all rows, every line ended and without blanks at its end.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Columns that a text takes on a terminal: one for each code point of UTF-8.
size_t display_width(const std::string& text);

std::string bytes_text(uint64_t bytes);         // "512 MiB", "1.5 GiB"
std::string duration_text(double nanoseconds);  // "58 ns", "1.31 us", "4.2 ms", "1.50 s"
std::string age_text(uint64_t milliseconds);    // "12 s", "3 min", "2 h 05 min"
std::string number_text(double value, int digits);
std::string ratio_text(double value);  // "1.25x"

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_TABLE_H_
