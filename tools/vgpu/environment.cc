// Composing environments.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/environment.h"

#include <unistd.h>

#include <functional>
#include <string_view>

namespace vgpu::tools {
namespace {

// The parts of `list` that `keep` accepts, joined by ':'.
std::string filtered(const std::string& list, const char* separators,
                     const std::function<bool(const std::string&)>& keep) {
  std::string kept;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find_first_of(separators, at), list.size());
    const std::string part = list.substr(at, end - at);
    if (!part.empty() && keep(part)) kept += (kept.empty() ? "" : ":") + part;
    at = end + 1;
  }
  return kept;
}

void set_or_erase(Environment* environment, const char* name, const std::string& value) {
  if (value.empty()) {
    environment->erase(name);
  } else {
    (*environment)[name] = value;
  }
}

// Takes our libraries out of both lists.
void remove_ours(Environment* environment, const Places& places) {
  const auto foreign_library = [&](const std::string& path) {
    return path != places.guest_library && path != places.soft_library &&
           path != places.router_library;
  };
  const auto foreign_folder = [&](const std::string& path) {
    return path != folder_of(places.guest_library) && path != folder_of(places.soft_library) &&
           path != folder_of(places.router_library);
  };
  set_or_erase(environment, "LD_PRELOAD",
               filtered((*environment)["LD_PRELOAD"], ": ", foreign_library));
  set_or_erase(environment, "LD_LIBRARY_PATH",
               filtered((*environment)["LD_LIBRARY_PATH"], ":;", foreign_folder));
}

void prepend(Environment* environment, const char* name, const std::string& first) {
  std::string& value = (*environment)[name];
  value = value.empty() ? first : first + ":" + value;
}

}  // namespace

Environment current_environment() {
  Environment environment;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    const std::string_view text(*line);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::vector<std::string> environment_lines(const Environment& environment) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : environment) lines.push_back(name + "=" + value);
  return lines;
}

void preload(Environment* environment, const std::string& library, const Places& places) {
  remove_ours(environment, places);
  prepend(environment, "LD_PRELOAD", library);
  prepend(environment, "LD_LIBRARY_PATH", folder_of(library));
}

Environment guest_environment(Environment base, const GuestSettings& settings,
                              const Places& places) {
  // One server: nothing stands between the program and its library.
  const auto inherited = base.find("VGPU_SERVER");
  const std::string servers = !settings.server.empty()  ? settings.server
                              : inherited != base.end() ? inherited->second
                                                        : std::string();
  const bool several = servers.find(',') != std::string::npos;
  preload(&base, several ? places.router_library : places.guest_library, places);
  if (!settings.server.empty()) base["VGPU_SERVER"] = settings.server;
  if (!settings.memory.empty()) base["VGPU_MEM"] = settings.memory;
  if (!settings.name.empty()) base["VGPU_NAME"] = settings.name;
  if (!settings.stats.empty()) base["VGPU_STATS"] = settings.stats;
  if (!settings.devices.empty()) base["VGPU_DEVICES"] = settings.devices;
  if (!settings.profile.empty()) base["VGPU_PROFILE"] = settings.profile;
  if (!settings.share.empty()) base["VGPU_SHARE"] = settings.share;
  if (!settings.cap.empty()) base["VGPU_CAP"] = settings.cap;
  if (!settings.priority.empty()) base["VGPU_PRIORITY"] = settings.priority;
  if (!settings.token_file.empty()) base["VGPU_TOKEN_FILE"] = settings.token_file;
  return base;
}

Environment direct_environment(Environment base, const Places& places) {
  preload(&base, places.soft_library, places);
  return base;
}

Environment server_environment(Environment base, const Places& places) {
  remove_ours(&base, places);
  return base;
}

}  // namespace vgpu::tools
