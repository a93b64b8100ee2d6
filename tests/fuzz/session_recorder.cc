// Preloaded beside the guest library: keeps what the program wrote into its ring, for the fuzzers'
// corpus. When the program ends, the ring still holds the whole session unless it went round.
// VGPU_RECORD_INTO: the file to write.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "protocol/ring/layout.h"
#include "protocol/ring/record.h"
#include "tests/fuzz/session_script.h"

namespace vgpu {
namespace {

// The mapping of the channel in this process; nullptr when there is none.
const std::byte* find_channel() {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return nullptr;
  const std::byte* found = nullptr;
  char line[512];
  while (found == nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
    const uint64_t begin = std::strtoull(line, nullptr, 16);
    if (std::strstr(line, "/memfd:") == nullptr || std::strstr(line, " rw-s 00000000") == nullptr) {
      continue;
    }
    const auto* header = reinterpret_cast<const protocol::ChannelHeader*>(begin);
    if (header->identity.magic == protocol::kChannelMagic) {
      found = reinterpret_cast<const std::byte*>(begin);
    }
  }
  (void)std::fclose(maps);
  return found;
}

void write_records(const std::byte* channel, std::FILE* file) {
  const auto* header = reinterpret_cast<const protocol::ChannelHeader*>(channel);
  const uint64_t end = header->tail.position.load(std::memory_order_acquire);
  if (end > header->identity.ring_bytes) {
    std::fprintf(stderr, "recorder: the session is longer than its ring\n");
    return;
  }
  std::fputc(testing::kRecordedScript, file);
  for (uint64_t at = 0; at < end;) {
    protocol::RecordHeader record;
    std::memcpy(&record, channel + protocol::kRingOffset + at, sizeof record);
    if (record.bytes < sizeof record || record.bytes > end - at) break;
    if (record.op != protocol::kPadOp) {
      (void)std::fwrite(channel + protocol::kRingOffset + at, 1, record.bytes, file);
    }
    at += record.bytes;
  }
}

struct AtExit {
  ~AtExit() {
    const char* path = std::getenv("VGPU_RECORD_INTO");
    const std::byte* channel = path == nullptr ? nullptr : find_channel();
    if (channel == nullptr) return;
    std::FILE* file = std::fopen(path, "we");
    if (file == nullptr) return;
    write_records(channel, file);
    (void)std::fclose(file);
  }
} at_exit;

}  // namespace
}  // namespace vgpu
