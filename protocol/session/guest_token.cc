// By the environment, or by a file: programs that run others with their environment do not hand it
// on then. SPDX-License-Identifier: Apache-2.0
#include "protocol/session/guest_token.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace vgpu::protocol {

std::string guest_token() {
  if (const auto text = env_text("VGPU_TOKEN")) return std::string(*text);
  const auto path = env_text("VGPU_TOKEN_FILE");
  if (!path) return "";
  char text[512];
  const UniqueFd file(::open(std::string(*path).c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t bytes = file.valid() ? ::read(file.get(), text, sizeof(text)) : -1;
  if (bytes < 0) VGPU_LOG_WARN("VGPU_TOKEN_FILE cannot be read");
  const std::string whole(text, bytes < 0 ? 0 : static_cast<size_t>(bytes));
  const size_t begin = whole.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return whole.substr(begin, whole.find_first_of(" \t\r\n", begin) - begin);
}

}  // namespace vgpu::protocol
