// What this process sent and waited for.
// SPDX-License-Identifier: Apache-2.0
#include "shim/stats.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/env.h"

namespace vgpu::shim {

std::string Stats::to_json(uint64_t ring_bytes) const {
  std::string text = "{\"pid\":" + std::to_string(::getpid()) +
                     ",\"records\":" + std::to_string(records) +
                     ",\"round_trips\":" + std::to_string(round_trips) +
                     ",\"launches\":" + std::to_string(launches) +
                     ",\"ring_bytes\":" + std::to_string(ring_bytes) +
                     ",\"bytes_to_device\":" + std::to_string(bytes_to_device) +
                     ",\"bytes_from_device\":" + std::to_string(bytes_from_device) +
                     ",\"round_trips_by_op\":{\"Attach\":1";
  for (uint32_t op = 0; op < kOps; ++op) {
    if (trips_by_op[op] == 0) continue;
    text += ",\"" + std::string(op_name(static_cast<uint16_t>(op))) +
            "\":" + std::to_string(trips_by_op[op]);
  }
  return text + "}}\n";
}

void write_stats(const Stats& stats, uint64_t ring_bytes) {
  const auto where = env_text("VGPU_STATS");
  if (!where || *where == "0") return;
  int fd = STDERR_FILENO;
  if (*where != "1") {
    fd = ::open(std::string(*where).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) return;
  }
  const std::string text = stats.to_json(ring_bytes);
  const ssize_t written = ::write(fd, text.data(), text.size());
  (void)written;
  if (fd != STDERR_FILENO) ::close(fd);
}

}  // namespace vgpu::shim
