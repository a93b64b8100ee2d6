// Listing and steering guests.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/guests.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/env.h"
#include "tools/vgpu/table.h"

namespace vgpu::tools {
namespace {

using nlohmann::ordered_json;
using protocol::GuestsReply;
using protocol::GuestState;
using protocol::SteerAction;
using protocol::SteerReply;
using protocol::SteerRequest;

constexpr int kDrainPollMs = 100;
constexpr const char* kPriorities[] = {"system", "latency", "normal", "spot"};

uint64_t sum(const std::vector<uint64_t>& values) {
  uint64_t all = 0;
  for (const uint64_t each : values) all += each;
  return all;
}

int complain(const ServerAnswer& answer, bool json) {
  if (json) {
    const ordered_json said = {
        {"answers", false}, {"problem", problem_text(answer)}, {"advice", advice_text(answer)}};
    std::printf("%s\n", said.dump(2).c_str());
  } else {
    std::fprintf(stderr, "vgpu: %s\nvgpu: %s\n", problem_text(answer).c_str(),
                 advice_text(answer).c_str());
  }
  return 1;
}

int complain(const std::string& why, bool json) {
  if (json) {
    std::printf("%s\n", ordered_json{{"answers", true}, {"problem", why}}.dump(2).c_str());
  } else {
    std::fprintf(stderr, "vgpu: %s\n", why.c_str());
  }
  return 1;
}

// The guest that is meant; 0 and a complaint when there is none.
uint64_t session_of(const std::string& server, const std::string& guest, bool json) {
  GuestsReply guests;
  const ServerAnswer answer = list_guests(server, &guests);
  if (answer.state != ServerState::kAnswers) return complain(answer, json), 0;
  std::string why;
  const GuestState* found = find_guest(guests, guest, &why);
  if (found == nullptr) return complain(why, json), 0;
  return found->session;
}

uint32_t number_of_priority(const std::string& name) {
  const auto* found = std::find(std::begin(kPriorities), std::end(kPriorities), name);
  return found == std::end(kPriorities)
             ? 0
             : static_cast<uint32_t>(found - std::begin(kPriorities)) + 1;
}

ordered_json steered_json(const SteerReply& reply) {
  return {{"memory_bytes", reply.memory_bytes},
          {"held_bytes", reply.held_bytes},
          {"weight", reply.weight},
          {"cap_percent", reply.cap_permille / 10.0},
          {"priority", priority_text(reply.priority - 1)}};
}

}  // namespace

const char* priority_text(uint32_t priority) {
  return priority < std::size(kPriorities) ? kPriorities[priority] : "?";
}

const char* mode_text(uint32_t mode) {
  return mode < std::size(protocol::kModeNames) ? protocol::kModeNames[mode] : "?";
}

std::string cap_text(uint32_t permille) {
  if (permille == 0 || permille >= 1000) return "-";
  return number_text(permille / 10.0, permille % 10 == 0 ? 0 : 1) + " %";
}

std::string guest_name(const GuestState& guest) {
  return guest.label.empty() ? guest.executable : guest.label;
}

ServerAnswer list_guests(const std::string& server, GuestsReply* guests) {
  ServerAnswer answer;
  uint64_t after = 0;
  for (bool more = true; more;) {
    GuestsReply page;
    answer = query_guests(server, after, &page);
    if (answer.state != ServerState::kAnswers) return answer;
    const uint64_t before = after;
    std::vector<GuestState> known = std::move(guests->guests);
    for (GuestState& each : page.guests) {
      if (each.session <= after) continue;  // a server that goes in circles
      after = each.session;
      known.push_back(std::move(each));
    }
    more = page.more && after != before;
    *guests = std::move(page);
    guests->guests = std::move(known);
  }
  return answer;
}

const GuestState* find_guest(const GuestsReply& guests, const std::string& text, std::string* why) {
  std::vector<const GuestState*> found;
  for (const GuestState& guest : guests.guests) {
    if (text == std::to_string(guest.session)) return &guest;
    if (text == std::to_string(guest.pid) || (!text.empty() && text == guest.label))
      found.push_back(&guest);
  }
  if (found.size() == 1) return found[0];
  *why = found.empty() ? "no guest '" + text + "'; vgpu ps lists those that you may see"
                       : std::to_string(found.size()) + " guests are called '" + text +
                             "': name one by its number, as vgpu ps shows it";
  return nullptr;
}

std::string ps_text(const GuestsReply& guests) {
  if (guests.guests.empty()) return "  no guests\n";
  using Align = Table::Align;
  Table table({{"guest"},
               {"pid"},
               {"user"},
               {"name", Align::kLeft},
               {"tenant", Align::kLeft},
               {"profile", Align::kLeft},
               {"mode", Align::kLeft},
               {"memory"},
               {"of"},
               {"weight"},
               {"cap"},
               {"class", Align::kLeft},
               {"kernels"},
               {"device time"},
               {"waited"},
               {"age"}});
  for (const GuestState& guest : guests.guests) {
    table.add({std::to_string(guest.session), std::to_string(guest.pid), std::to_string(guest.uid),
               guest_name(guest), guest.tenant, guest.profile, mode_text(guest.mode),
               bytes_text(sum(guest.used_bytes)), bytes_text(sum(guest.granted_bytes)),
               std::to_string(guest.weight), cap_text(guest.cap_permille),
               priority_text(guest.priority), std::to_string(guest.kernels),
               duration_text(static_cast<double>(guest.device_ns[0])),
               duration_text(static_cast<double>(guest.wait_ns)), age_text(guest.uptime_ms)});
  }
  return table.text();
}

ordered_json guests_json(const GuestsReply& guests) {
  ordered_json json;
  json["answers"] = true;
  json["draining"] = guests.draining;
  json["waiting"] = guests.waiting;
  json["devices"] = ordered_json::array();
  for (const protocol::DeviceState& device : guests.devices) {
    json["devices"].push_back({{"name", device.name},
                               {"uuid", device.uuid},
                               {"memory_bytes", device.memory_bytes},
                               {"capacity_bytes", device.capacity_bytes},
                               {"granted_bytes", device.granted_bytes}});
  }
  json["guests"] = ordered_json::array();
  for (const GuestState& guest : guests.guests) {
    json["guests"].push_back({{"session", guest.session},
                              {"pid", guest.pid},
                              {"uid", guest.uid},
                              {"program", guest.executable},
                              {"name", guest.label},
                              {"tenant", guest.tenant},
                              {"profile", guest.profile},
                              {"mode", mode_text(guest.mode)},
                              {"uptime_ms", guest.uptime_ms},
                              {"devices", guest.devices},
                              {"granted_bytes", guest.granted_bytes},
                              {"used_bytes", guest.used_bytes},
                              {"weight", guest.weight},
                              {"cap_percent", guest.cap_permille / 10.0},
                              {"priority", priority_text(guest.priority)},
                              {"kernels", guest.kernels},
                              {"copied_to_bytes", guest.copied_bytes[0]},
                              {"copied_from_bytes", guest.copied_bytes[1]},
                              {"refused_allocations", guest.refused_allocations},
                              {"compute_ns", guest.device_ns[0]},
                              {"copy_to_ns", guest.device_ns[1]},
                              {"copy_from_ns", guest.device_ns[2]},
                              {"wait_ns", guest.wait_ns},
                              {"throttled_ns", guest.throttled_ns}});
  }
  return json;
}

int show_guests(const std::string& server, bool json) {
  GuestsReply guests;
  const ServerAnswer answer = list_guests(server, &guests);
  if (answer.state != ServerState::kAnswers) return complain(answer, json);
  if (json) {
    std::printf("%s\n", guests_json(guests).dump(2).c_str());
    return 0;
  }
  std::fputs(ps_text(guests).c_str(), stdout);
  if (guests.draining) std::puts("  the server is draining: it takes no new guests");
  return 0;
}

int limit_guest(const std::string& server, const LimitOptions& options, bool json) {
  SteerRequest request;
  request.action = SteerAction::kLimit;
  if (!options.memory.empty()) request.memory_bytes = parse_size(options.memory).value_or(0);
  if (!options.share.empty())
    request.weight = static_cast<uint32_t>(parse_integer(options.share).value_or(0));
  if (!options.cap.empty())
    request.cap_permille =
        static_cast<uint32_t>(std::strtod(options.cap.c_str(), nullptr) * 10 + 0.5);
  request.priority = number_of_priority(options.priority);
  if (request.memory_bytes == 0 && request.weight == 0 && request.cap_permille == 0 &&
      request.priority == 0) {
    return complain("nothing to change: give --mem, --share, --cap or --priority", json);
  }
  request.session = session_of(server, options.guest, json);
  if (request.session == 0) return 1;
  SteerReply reply;
  const ServerAnswer answer = steer_server(server, request, &reply);
  if (answer.state != ServerState::kAnswers) return complain(answer, json);
  if (json) {
    std::printf("%s\n", steered_json(reply).dump(2).c_str());
    return 0;
  }
  std::printf("guest %llu: %s, weight %u, cap %s, priority %s\n",
              static_cast<unsigned long long>(request.session),
              bytes_text(reply.memory_bytes).c_str(), reply.weight,
              cap_text(reply.cap_permille).c_str(), priority_text(reply.priority - 1));
  if (reply.held_bytes != 0) {
    std::printf("it uses %s, which it keeps until it frees some; it gets no more\n",
                bytes_text(reply.held_bytes).c_str());
  }
  return 0;
}

int kill_guest(const std::string& server, const std::string& guest, bool json) {
  SteerRequest request;
  request.action = SteerAction::kKill;
  request.session = session_of(server, guest, json);
  if (request.session == 0) return 1;
  SteerReply reply;
  const ServerAnswer answer = steer_server(server, request, &reply);
  if (answer.state != ServerState::kAnswers) return complain(answer, json);
  if (json) {
    std::printf("%s\n",
                ordered_json{{"session", request.session}, {"ended", true}}.dump(2).c_str());
  } else {
    std::printf("the session of guest %llu has been ended\n",
                static_cast<unsigned long long>(request.session));
  }
  return 0;
}

int drain(const std::string& server, const DrainOptions& options, bool json) {
  SteerRequest request;
  request.action = options.undo ? SteerAction::kUndrain : SteerAction::kDrain;
  SteerReply reply;
  const ServerAnswer answer = steer_server(server, request, &reply);
  if (answer.state != ServerState::kAnswers) return complain(answer, json);
  const uint64_t end_ns = monotonic_ns() + uint64_t{options.timeout_s} * 1'000'000'000;
  size_t left = reply.guests;
  while (options.wait && !options.undo && left != 0) {
    if (options.timeout_s != 0 && monotonic_ns() > end_ns) break;
    (void)::poll(nullptr, 0, kDrainPollMs);
    GuestsReply guests;
    const ServerAnswer again = list_guests(server, &guests);
    if (again.state != ServerState::kAnswers) return complain(again, json);
    left = guests.guests.size();
  }
  const bool waited_in_vain = options.wait && left != 0 && !options.undo;
  if (json) {
    std::printf("%s\n",
                ordered_json{{"draining", !options.undo}, {"guests", left}}.dump(2).c_str());
  } else if (options.undo) {
    std::puts("the server takes new guests again");
  } else {
    std::printf("the server takes no new guests; %zu run\n", left);
  }
  return waited_in_vain ? 1 : 0;
}

}  // namespace vgpu::tools
