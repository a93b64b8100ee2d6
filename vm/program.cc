// Options, log and signals of the folder's programs.
// SPDX-License-Identifier: Apache-2.0
#include "vm/program.h"

#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/log.h"

namespace vgpu::vm {
namespace {

volatile sig_atomic_t g_stopping = 0;

}  // namespace

std::optional<int> parse_options(int argc, char** argv, const char* help,
                                 const OptionTable& table) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help" || name == "-h") {
      std::fputs(help, stdout);
      return 0;
    }
    if (name == "--version") {
      std::puts(VGPU_VERSION);
      return 0;
    }
    const auto found = table.find(name);
    if (found == table.end() || i + 1 == argc) {
      std::fprintf(stderr, "%s: %s %s; see --help\n", argv[0],
                   found == table.end() ? "unknown option" : "no value for", name.c_str());
      return 2;
    }
    const std::string value = argv[++i];
    if (!found->second(value)) {
      std::fprintf(stderr, "%s: %s cannot be %s; see --help\n", argv[0], name.c_str(),
                   value.c_str());
      return 2;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> parse_size(const std::string& text) {
  char* end = nullptr;
  const uint64_t number = std::strtoull(text.c_str(), &end, 10);
  int shift = 0;
  if (*end == 'K') shift = 10;
  if (*end == 'M') shift = 20;
  if (*end == 'G') shift = 30;
  if (shift != 0) ++end;
  if (end == text.c_str() || *end != '\0' || number == 0 || number > (UINT64_MAX >> shift))
    return std::nullopt;
  return number << shift;
}

void start_program() {
  if (std::getenv("VGPU_LOG") == nullptr) set_log_level(LogLevel::kInfo);
  struct sigaction action {};
  action.sa_handler = [](int) { g_stopping = 1; };
  (void)sigaction(SIGTERM, &action, nullptr);
  (void)sigaction(SIGINT, &action, nullptr);
  (void)signal(SIGPIPE, SIG_IGN);
}

bool stopping() { return g_stopping != 0; }

}  // namespace vgpu::vm
