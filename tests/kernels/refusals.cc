// Counts what the compiler refuses in PTX files, and in the PTX inside libraries and programs.
// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "api/cudart/image.h"
#include "softgpu/program.h"

namespace {

using vgpu::softgpu::Diagnostic;
using vgpu::softgpu::Program;

struct Count {
  std::map<std::string, size_t> refused;  // by text
  size_t modules = 0, unparsed = 0, kernels = 0;
};

void count_text(std::string_view text, const std::string& name, Count* count) {
  ++count->modules;
  Diagnostic error;
  auto program = Program::parse(text, &error);
  if (program == nullptr) {
    ++count->unparsed;
    std::printf("%s:%d:%d: %s\n", name.c_str(), error.line, error.column, error.text.c_str());
    return;
  }
  count->kernels += program->kernels().size();
  for (const Diagnostic& d : program->refusals()) ++count->refused[d.text];
}

// Fat binaries lie one behind the other, aligned to 8; the magic finds the next one.
void count_binary(const std::string& bytes, const std::string& name, size_t limit, Count* count) {
  constexpr uint32_t kMagic = 0xba55ed50;
  size_t used = 0;
  for (size_t at = 0; at + 16 < bytes.size() && used < limit; at += 8) {
    uint32_t magic;
    std::memcpy(&magic, bytes.data() + at, 4);
    if (magic != kMagic) continue;
    std::vector<vgpu::cudart::Image> images;
    std::string why;
    if (!vgpu::cudart::parse_images(bytes.data() + at, &images, &why)) continue;
    const vgpu::cudart::Image* ptx = vgpu::cudart::best_ptx(images, 121);
    std::string text;
    if (ptx == nullptr || ptx->text_bytes > (4u << 20) ||
        !vgpu::cudart::ptx_text(*ptx, &text, &why) || text.size() > (4u << 20)) {
      continue;
    }
    ++used;
    count_text(text, name + "@" + std::to_string(at), count);
  }
}

}  // namespace

// Usage: softgpu_refusals [-n MODULES] FILE…
int main(int argc, char** argv) {
  Count count;
  size_t limit = SIZE_MAX;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "-n") == 0 && i + 1 < argc) {
      limit = std::strtoul(argv[++i], nullptr, 0);
      continue;
    }
    std::ifstream file(argv[i], std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    if (bytes.empty()) {
      std::fprintf(stderr, "cannot read %s\n", argv[i]);
      return 2;
    }
    if (bytes.rfind("\x7f"
                    "ELF",
                    0) == 0)
      count_binary(bytes, argv[i], limit, &count);
    else
      count_text(bytes.c_str(), argv[i], &count);
  }
  if (count.modules == 0) {
    std::fprintf(stderr, "no PTX in any of the files\n");
    return 2;
  }
  std::multimap<size_t, std::string, std::greater<>> worst;
  for (const auto& [text, n] : count.refused) worst.emplace(n, text);
  for (const auto& [n, text] : worst) std::printf("%8zu  %s\n", n, text.c_str());
  std::printf("%zu modules, %zu not parsed, %zu kernels, %zu forms refused\n", count.modules,
              count.unparsed, count.kernels, count.refused.size());
  return count.unparsed == 0 && count.refused.empty() ? 0 : 1;
}
