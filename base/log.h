// Tiny logger of the shim, softgpu and the protocol: silent unless VGPU_LOG asks for lines.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_LOG_H_
#define VGPU_BASE_LOG_H_

#include <cstdint>
#include <string_view>

namespace vgpu {

// VGPU_LOG=error|warn|info|debug sets the level (unset: nothing at all). Lines go to stderr, or are
// appended to VGPU_LOG_FILE, which is opened for each line: no descriptor of ours stays in an
// application that may close or reuse any of them. Every line is "vgpu: LEVEL [pid.tid] text",
// written by one write(2). Thread-safe, allocates nothing, keeps errno.
enum class LogLevel : int { kOff = 0, kError = 1, kWarn = 2, kInfo = 3, kDebug = 4 };

// Longest line in bytes; what is longer is cut and ends in "...".
inline constexpr int kLogLineBytesMax = 1024;
// Distinct keys that log_once remembers. At the limit a new key logs nothing.
inline constexpr int kLogOnceKeysMax = 2048;

// "error" and so on; kOff for any other text.
LogLevel parse_log_level(std::string_view text);

// Whether lines of this level are written. One relaxed load after the first call.
bool log_enabled(LogLevel level);

// Overrides what the environment said (tools, tests).
void set_log_level(LogLevel level);

// Writes one line, printf style, when the level is enabled.
void log_line(LogLevel level, const char* format, ...) __attribute__((format(printf, 2, 3)));

// As log_line, but only the first time that this process logs `key`.
void log_once(std::string_view key, LogLevel level, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

}  // namespace vgpu

// The arguments are evaluated only when the line is written.
#define VGPU_LOG_AT(level, ...)                    \
  do {                                             \
    if (::vgpu::log_enabled(level)) [[unlikely]] { \
      ::vgpu::log_line(level, __VA_ARGS__);        \
    }                                              \
  } while (false)
#define VGPU_LOG_ERROR(...) VGPU_LOG_AT(::vgpu::LogLevel::kError, __VA_ARGS__)
#define VGPU_LOG_WARN(...) VGPU_LOG_AT(::vgpu::LogLevel::kWarn, __VA_ARGS__)
#define VGPU_LOG_INFO(...) VGPU_LOG_AT(::vgpu::LogLevel::kInfo, __VA_ARGS__)
#define VGPU_LOG_DEBUG(...) VGPU_LOG_AT(::vgpu::LogLevel::kDebug, __VA_ARGS__)

#endif  // VGPU_BASE_LOG_H_
