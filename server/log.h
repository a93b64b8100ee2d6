// Lines of the server's log: printf style in front, spdlog behind.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_LOG_H_
#define VGPU_SERVER_LOG_H_

#include <string>

namespace vgpu::server {

enum class Level : int { kDebug = 1, kInfo = 2, kWarn = 3, kError = 4, kOff = 6 };

// Lines go to `descriptor` as "time level name: text". Thread-safe. Off until the first call.
void open_log(const std::string& name, Level level, int descriptor = 2);
// "debug", "info", "warn", "error" or "off"; false for anything else.
bool parse_level(const std::string& text, Level* level);
const char* level_name(Level level);

void log(Level level, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace vgpu::server

#endif  // VGPU_SERVER_LOG_H_
