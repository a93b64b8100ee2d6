// Reads PTX files with their expected results.
// SPDX-License-Identifier: Apache-2.0
#include "kernel_file.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

namespace vgpu::softgpu {
namespace {

using Words = std::vector<std::string>;

void put(Buffer* b, size_t i, const std::string& text) {
  uint8_t* at = b->data() + i * b->element;
  if (b->type == "f32") {
    const float v = std::strtof(text.c_str(), nullptr);
    std::memcpy(at, &v, 4);
  } else if (b->type == "f64") {
    const double v = std::strtod(text.c_str(), nullptr);
    std::memcpy(at, &v, 8);
  } else {
    const bool negative = text[0] == '-';
    const uint64_t v = negative ? static_cast<uint64_t>(std::strtoll(text.c_str(), nullptr, 0))
                                : std::strtoull(text.c_str(), nullptr, 0);
    std::memset(at, negative ? 0xff : 0, b->element);
    std::memcpy(at, &v, std::min<size_t>(b->element, 8));
  }
}

bool fill(Buffer* b, const Words& w, const std::vector<KernelFile::Parameter>& parameters) {
  if (w.empty()) return false;
  if (w[0] == "ref") return w.size() == 2 && apply_reference(w[1], parameters, b);
  if (w[0] == "random") {
    std::mt19937_64 random(w.size() > 1 ? std::strtoull(w[1].c_str(), nullptr, 0) : 1);
    for (size_t i = 0; i < b->count; ++i) {
      const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
      put(b, i, b->type[0] == 'f' ? std::to_string(unit * 4 - 2) : std::to_string(random()));
    }
    return true;
  }
  if (w[0] == "iota") {
    const double start = w.size() > 1 ? std::strtod(w[1].c_str(), nullptr) : 0;
    const double step = w.size() > 2 ? std::strtod(w[2].c_str(), nullptr) : 1;
    for (size_t i = 0; i < b->count; ++i) {
      const double v = start + step * static_cast<double>(i);
      put(b, i, b->type[0] == 'f' ? std::to_string(v) : std::to_string(static_cast<int64_t>(v)));
    }
    return true;
  }
  for (size_t i = 0; i < b->count; ++i) put(b, i, w[i % w.size()]);
  return true;
}

bool shape(Buffer* b, const std::string& name, const std::string& type, size_t count) {
  b->name = name;
  b->type = type;
  b->count = count;
  b->element = std::strtoul(type.c_str() + 1, nullptr, 10) / 8;
  b->words.assign(count * b->element / 8 + 3, 0);
  return b->element >= 1 && b->element <= 16;
}

bool read_parameter(const Words& w, KernelFile* file) {
  KernelFile::Parameter p;
  p.by_value = w[0] == "value";
  p.is_output = w[0] == "out" || w[0] == "inout";
  const size_t head = p.by_value ? 3 : 4;
  if (w.size() < head + 2 || w[head] != "=") return false;
  const size_t count = p.by_value ? 1 : std::strtoul(w[3].c_str(), nullptr, 0);
  if (!shape(&p.before, w[1], w[2], count)) return false;
  p.after = p.before;
  Words before(w.begin() + static_cast<long>(head) + 1, w.end()), after = before;
  if (w[0] == "inout") {
    auto arrow = std::find(before.begin(), before.end(), "->");
    if (arrow == before.end()) return false;
    after.assign(arrow + 1, before.end());
    before.erase(arrow, before.end());
  }
  if (w[0] != "out" && !fill(&p.before, before, file->parameters)) return false;
  file->parameters.push_back(p);
  auto& kept = file->parameters.back();
  return !p.is_output || fill(&kept.after, after, file->parameters);
}

bool read_line(const Words& w, KernelFile* file) {
  auto dims = [&](Dim3* d) {
    return std::sscanf(w[1].c_str(), "%u,%u,%u", &d->x, &d->y, &d->z) >= 1;
  };
  if (w.empty()) return true;
  if (w[0] == "in" || w[0] == "out" || w[0] == "inout" || w[0] == "value")
    return read_parameter(w, file);
  if (w.size() != 2) return false;
  if (w[0] == "entry") return file->entry = w[1], true;
  if (w[0] == "grid") return dims(&file->launch.grid);
  if (w[0] == "block") return dims(&file->launch.block);
  if (w[0] == "cluster") {
    file->launch.cluster = {};
    file->whole_warps = true;
    return dims(&file->launch.cluster);
  }
  if (w[0] == "lanes") return file->whole_warps = w[1] == "32", file->whole_warps;
  if (w[0] == "near") return (file->near = std::strtod(w[1].c_str(), nullptr)) > 0;
  if (w[0] != "shared") return false;
  file->launch.dynamic_shared_bytes = static_cast<uint32_t>(std::strtoul(w[1].c_str(), nullptr, 0));
  return true;
}

}  // namespace

bool read_kernel_file(const std::string& path, KernelFile* file, std::string* error) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  file->ptx = text.str();
  file->launch.block.x = 32;
  std::string line;
  while (std::getline(text, line)) {
    if (line.rfind("//!", 0) != 0) continue;
    std::istringstream words(line.substr(3));
    Words w;
    for (std::string word; words >> word;) w.push_back(word);
    if (!read_line(w, file)) return *error = "cannot read '" + line + "'", false;
  }
  file->whole_warps = file->whole_warps || needs_whole_warps(file->ptx);
  if (file->parameters.empty()) return *error = "no parameters", false;
  return true;
}

}  // namespace vgpu::softgpu
