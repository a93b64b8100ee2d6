// The one file that knows spdlog.
// SPDX-License-Identifier: Apache-2.0
#include "server/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdarg>
#include <cstdio>

namespace vgpu::server {
namespace {

constexpr Level kLevels[] = {Level::kDebug, Level::kInfo, Level::kWarn, Level::kError, Level::kOff};
std::shared_ptr<spdlog::logger> logger_of_process;  // set once, before other threads exist

}  // namespace

void open_log(const std::string& name, Level level, int descriptor) {
  std::FILE* file = descriptor == 2 ? stderr : fdopen(descriptor, "w");
  if (file == nullptr) return;
  logger_of_process = std::make_shared<spdlog::logger>(
      name, std::make_shared<spdlog::sinks::ansicolor_sink<spdlog::details::console_mutex>>(
                file, spdlog::color_mode::automatic));
  logger_of_process->set_level(static_cast<spdlog::level::level_enum>(level));
  logger_of_process->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %n[%P]: %v");
  logger_of_process->flush_on(spdlog::level::debug);
}

const char* level_name(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info";
    case Level::kWarn:
      return "warn";
    case Level::kError:
      return "error";
    case Level::kOff:
      break;
  }
  return "off";
}

bool parse_level(const std::string& text, Level* level) {
  for (Level each : kLevels) {
    if (text == level_name(each)) {
      *level = each;
      return true;
    }
  }
  return false;
}

void log(Level level, const char* format, ...) {
  spdlog::logger* logger = logger_of_process.get();
  const auto spd_level = static_cast<spdlog::level::level_enum>(level);
  if (logger == nullptr || !logger->should_log(spd_level)) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  logger->log(spd_level, spdlog::string_view_t(text));
}

}  // namespace vgpu::server
