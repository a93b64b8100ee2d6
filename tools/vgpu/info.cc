// Showing what a server says about itself.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/info.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/vgpu/table.h"

namespace vgpu::tools {
namespace {

uint64_t free_bytes(const protocol::DeviceUse& device) {
  return device.capacity_bytes - std::min(device.capacity_bytes, device.granted_bytes);
}

std::string driver_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int complain(const ServerAnswer& answer) {
  std::fprintf(stderr, "vgpu: %s\nvgpu: %s\n", problem_text(answer).c_str(),
               advice_text(answer).c_str());
  return 1;
}

std::string devices_text(const protocol::InfoReply& info) {
  if (info.devices.empty()) return "  no devices yet: the first worker is still starting\n";
  using Align = Table::Align;
  Table table({{"number"},
               {"device", Align::kLeft},
               {"PCI address", Align::kLeft},
               {"memory"},
               {"granted"},
               {"free to grant"}});
  for (size_t i = 0; i < info.devices.size(); ++i) {
    const protocol::DeviceUse& device = info.devices[i];
    table.add({std::to_string(i), device.name, device.pci_bus_id, bytes_text(device.memory_bytes),
               bytes_text(device.granted_bytes), bytes_text(free_bytes(device))});
  }
  return table.text();
}

std::string numbers_text(const std::vector<uint8_t>& numbers) {
  std::string text;
  for (const unsigned each : numbers) text += (text.empty() ? "" : ",") + std::to_string(each);
  return text;
}

// "tenant, address pid N" of a remote guest.
std::string from_text(const protocol::GuestInfo& guest) {
  return guest.remote.empty() ? "here" : guest.tenant + ", " + guest.remote;
}

std::string guests_text(const protocol::InfoReply& info) {
  if (info.guests.empty()) return "  no guests\n";
  using Align = Table::Align;
  Table table({{"guest", Align::kRight},
               {"pid"},
               {"program", Align::kLeft},
               {"name", Align::kLeft},
               {"from", Align::kLeft},
               {"devices", Align::kLeft},
               {"memory used"},
               {"granted"},
               {"age"}});
  for (const protocol::GuestInfo& guest : info.guests) {
    table.add({std::to_string(guest.session), std::to_string(guest.pid), guest.executable,
               guest.label, from_text(guest), numbers_text(guest.devices),
               bytes_text(guest.used_bytes), bytes_text(guest.granted_bytes),
               age_text(guest.uptime_ms)});
  }
  return table.text();
}

// Where remote guests come in; nothing without such places.
std::string networks_text(const protocol::InfoReply& info) {
  std::string text;
  for (const protocol::NetworkUse& use : info.networks) {
    text += "  listens  " + use.address + ", key " + use.public_key + "\n           " +
            std::to_string(use.guests) + " remote guests now, " + std::to_string(use.attached) +
            " in all; refused: " + std::to_string(use.refused) + " attaches, " +
            std::to_string(use.strangers) + " strangers, " + std::to_string(use.malformed) +
            " bad messages\n";
  }
  return text;
}

}  // namespace

std::string info_text(const ServerAnswer& answer) {
  const protocol::InfoReply& info = answer.info;
  std::string text = "vGPU server at " + answer.address + "\n";
  text += "  version  " + info.server_version + ", pid " + std::to_string(info.server_pid) +
          ", up " + age_text(info.uptime_ms) + "\n";
  text += "  driver   " + info.driver + ", CUDA " + driver_version_text(info.driver_version) + "\n";
  if (!info.driver_path.empty()) text += "           " + info.driver_path + "\n";
  if (!info.driver_reason.empty()) text += "           because: " + info.driver_reason + "\n";
  text += networks_text(info);
  return text + "\n" + devices_text(info) + "\n" + guests_text(info);
}

std::string info_json(const ServerAnswer& answer) {
  nlohmann::ordered_json json;
  json["address"] = answer.address;
  json["answers"] = answer.state == ServerState::kAnswers;
  if (answer.state != ServerState::kAnswers) {
    json["problem"] = problem_text(answer);
    json["advice"] = advice_text(answer);
    return json.dump(2) + "\n";
  }
  const protocol::InfoReply& info = answer.info;
  json["version"] = info.server_version;
  json["driver"] = info.driver;
  json["driver_path"] = info.driver_path;
  json["driver_reason"] = info.driver_reason;
  json["driver_version"] = info.driver_version;
  json["pid"] = info.server_pid;
  json["uptime_ms"] = info.uptime_ms;
  json["devices"] = nlohmann::ordered_json::array();
  for (const protocol::DeviceUse& device : info.devices) {
    json["devices"].push_back({{"name", device.name},
                               {"uuid", device.uuid},
                               {"pci_bus_id", device.pci_bus_id},
                               {"memory_bytes", device.memory_bytes},
                               {"granted_bytes", device.granted_bytes},
                               {"free_bytes", free_bytes(device)}});
  }
  json["networks"] = nlohmann::ordered_json::array();
  for (const protocol::NetworkUse& use : info.networks) {
    json["networks"].push_back({{"address", use.address},
                                {"public_key", use.public_key},
                                {"guests", use.guests},
                                {"connections", use.connections},
                                {"attached", use.attached},
                                {"refused", use.refused},
                                {"strangers", use.strangers},
                                {"malformed", use.malformed}});
  }
  json["guests"] = nlohmann::ordered_json::array();
  for (const protocol::GuestInfo& guest : info.guests) {
    json["guests"].push_back({{"session", guest.session},
                              {"pid", guest.pid},
                              {"program", guest.executable},
                              {"name", guest.label},
                              {"tenant", guest.tenant},
                              {"remote", guest.remote},
                              {"devices", guest.devices},
                              {"granted_bytes", guest.granted_bytes},
                              {"used_bytes", guest.used_bytes},
                              {"uptime_ms", guest.uptime_ms}});
  }
  return json.dump(2) + "\n";
}

int show_info(const std::string& server, bool json) {
  const ServerAnswer answer = query_server(server);
  const bool answers = answer.state == ServerState::kAnswers;
  if (json) {
    std::fputs(info_json(answer).c_str(), stdout);
    return answers ? 0 : 1;
  }
  if (!answers) return complain(answer);
  std::fputs(info_text(answer).c_str(), stdout);
  return 0;
}

int stop(const std::string& server, bool force) {
  uint32_t guests_left = 0;
  const ServerAnswer answer = stop_server(server, force, &guests_left);
  if (answer.state != ServerState::kAnswers) return complain(answer);
  std::printf("the server at %s stops; %u guests go on\n", answer.address.c_str(), guests_left);
  return 0;
}

}  // namespace vgpu::tools
