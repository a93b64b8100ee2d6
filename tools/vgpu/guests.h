// vgpu ps, limit, kill and drain: seeing guests with their figures, and steering them.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_GUESTS_H_
#define VGPU_TOOLS_VGPU_GUESTS_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/vgpu/server_query.h"

namespace vgpu::tools {

struct LimitOptions {
  std::string guest;                         // session, pid or name
  std::string memory, share, cap, priority;  // as the user gave them, checked; empty: as it is
};

struct DrainOptions {
  bool wait = false;  // until the last guest has gone
  bool undo = false;
  unsigned timeout_s = 0;  // of waiting; 0 = no end
};

// All guests that this user may see, page by page.
ServerAnswer list_guests(const std::string& server, protocol::GuestsReply* guests);

// The guest that `text` names: its session, its process, or the name that it was given. Nullptr:
// none, or several; *why says which.
const protocol::GuestState* find_guest(const protocol::GuestsReply& guests, const std::string& text,
                                       std::string* why);

const char* priority_text(uint32_t priority);         // of a class by number
const char* mode_text(uint32_t mode);                 // of sharing, by number
std::string cap_text(uint32_t permille);              // "30 %", "12.5 %", "-" for none
std::string guest_name(const protocol::GuestState&);  // what it was called, else its program

std::string ps_text(const protocol::GuestsReply& guests);
nlohmann::ordered_json guests_json(const protocol::GuestsReply& guests);

// Each prints, and gives the exit code: 0, or 1 when no server answers or it refuses, with the
// reason on stderr (with `json` on stdout).
int show_guests(const std::string& server, bool json);
int limit_guest(const std::string& server, const LimitOptions& options, bool json);
int kill_guest(const std::string& server, const std::string& guest, bool json);
int drain(const std::string& server, const DrainOptions& options, bool json);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_GUESTS_H_
