// One line, one write.
// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace vgpu {
namespace {

constexpr int kLevelUnread = -1;

// Relaxed everywhere: the level orders nothing, and reading the environment twice does no harm.
std::atomic<int> g_level{kLevelUnread};
// Hashes of the keys seen by log_once; 0 = free. Claimed by compare-exchange, relaxed: a slot
// carries no other data.
std::array<std::atomic<uint64_t>, kLogOnceKeysMax> g_once_keys{};

int current_level() {
  int level = g_level.load(std::memory_order_relaxed);
  if (level == kLevelUnread) [[unlikely]] {
    const char* text = std::getenv("VGPU_LOG");
    level = static_cast<int>(text != nullptr ? parse_log_level(text) : LogLevel::kOff);
    g_level.store(level, std::memory_order_relaxed);
  }
  return level;
}

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kOff:
      return "off";
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
  }
  return "?";
}

void write_out(const char* line, size_t bytes) {
  int fd = STDERR_FILENO;
  const char* path = std::getenv("VGPU_LOG_FILE");
  const bool to_file = path != nullptr && *path != '\0';
  if (to_file) {
    fd = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0) return;
  }
  // A line that cannot be written is lost: there is nobody to tell.
  while (::write(fd, line, bytes) < 0 && errno == EINTR) {
  }
  if (to_file) ::close(fd);
}

void log_arguments(LogLevel level, const char* format, va_list arguments) {
  const int saved_errno = errno;
  char line[kLogLineBytesMax];
  constexpr int kTextMax = kLogLineBytesMax;  // with a NUL at the end, which becomes the newline
  int used = std::snprintf(line, kTextMax, "vgpu: %s [%d.%ld] ", level_name(level), ::getpid(),
                           ::syscall(SYS_gettid));
  used = std::clamp(used, 0, kTextMax - 1);
  const int wanted =
      std::vsnprintf(line + used, static_cast<size_t>(kTextMax - used), format, arguments);
  if (wanted >= kTextMax - used) {
    used = kTextMax - 1;
    std::memcpy(line + used - 3, "...", 3);
  } else {
    used += std::max(wanted, 0);
  }
  line[used++] = '\n';
  write_out(line, static_cast<size_t>(used));
  errno = saved_errno;
}

// True for exactly one caller per key.
bool first_time(std::string_view key) {
  uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : key) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211U;
  hash |= 1;  // never 0, which marks a free slot
  for (uint64_t probe = 0; probe < kLogOnceKeysMax; ++probe) {
    auto& slot = g_once_keys[(hash / 2 + probe) % kLogOnceKeysMax];
    uint64_t found = slot.load(std::memory_order_relaxed);
    if (found == 0 && slot.compare_exchange_strong(found, hash, std::memory_order_relaxed)) {
      return true;
    }
    if (found == hash) return false;
  }
  return false;
}

}  // namespace

LogLevel parse_log_level(std::string_view text) {
  for (const auto level : {LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug}) {
    if (text == level_name(level)) return level;
  }
  return LogLevel::kOff;
}

bool log_enabled(LogLevel level) {
  return level != LogLevel::kOff && static_cast<int>(level) <= current_level();
}

void set_log_level(LogLevel level) {
  g_level.store(static_cast<int>(level), std::memory_order_relaxed);
}

void log_line(LogLevel level, const char* format, ...) {
  if (!log_enabled(level)) return;
  va_list arguments;
  va_start(arguments, format);
  log_arguments(level, format, arguments);
  va_end(arguments);
}

void log_once(std::string_view key, LogLevel level, const char* format, ...) {
  if (!log_enabled(level) || !first_time(key)) return;
  va_list arguments;
  va_start(arguments, format);
  log_arguments(level, format, arguments);
  va_end(arguments);
}

}  // namespace vgpu
