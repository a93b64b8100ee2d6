// Reading how processes are numbered.
// SPDX-License-Identifier: Apache-2.0
#include "server/ownership.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/unique_fd.h"

namespace vgpu::server {
namespace {

// The beginning of a file; NSpid stands well within it.
std::string read_front_of(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return "";
  std::string text(4096, '\0');
  const ssize_t bytes = ::read(file.get(), text.data(), text.size());
  text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return text;
}

}  // namespace

PidView parse_status(const std::string& status) {
  PidView view;
  // A process may choose its name, but not start a line with it: the kernel escapes line ends.
  const size_t at = status.find("\nNSpid:");
  if (at == std::string::npos) return view;
  const char* text = status.c_str() + at + 7;
  while (*text == '\t' || *text == ' ') {
    char* end = nullptr;
    const long number = std::strtol(text, &end, 10);
    if (end == text) break;
    view.inner = static_cast<pid_t>(number);
    ++view.depth;
    text = end;
  }
  return view;
}

PidView view_pid(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  PidView view = parse_status(read_front_of(folder + "/status"));
  struct stat space {};
  if (view.depth != 0 && ::stat((folder + "/ns/pid").c_str(), &space) == 0)
    view.space = space.st_ino;
  return view;
}

bool same_space(const PidView& a, const PidView& b) {
  if (a.depth == 0 || b.depth == 0) return false;
  if (a.space != 0 && b.space != 0) return a.space == b.space;
  return a.depth == 1 && b.depth == 1;
}

}  // namespace vgpu::server
