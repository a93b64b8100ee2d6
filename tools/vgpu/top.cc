// The loop of vgpu top: listings, pictures, keys.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/top.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/clock.h"
#include "base/env.h"
#include "tools/vgpu/guests.h"
#include "tools/vgpu/terminal.h"
#include "tools/vgpu/top_view.h"

namespace vgpu::tools {
namespace {

constexpr char kKeys[] =
    "q quit  s sort  r reverse  up/down choose  m memory  w share  c cap  p priority  x end it";
constexpr size_t kInputMax = 32;

int complain(const ServerAnswer& answer) {
  std::fprintf(stderr, "vgpu: %s\nvgpu: %s\n", problem_text(answer).c_str(),
               advice_text(answer).c_str());
  return 1;
}

// What was typed after one of the keys that change something; empty: it makes no sense.
std::string apply(const std::string& server, uint64_t session, char what, const std::string& text) {
  protocol::SteerRequest request;
  request.session = session;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const bool is_number = end != text.c_str() && *end == '\0';
  if (what == 'm') request.memory_bytes = parse_size(text).value_or(0);
  if (what == 'w' && is_number && number >= 1 && number <= 10'000)
    request.weight = static_cast<uint32_t>(number);
  if (what == 'c' && is_number && number >= 0.1 && number <= 100)
    request.cap_permille = static_cast<uint32_t>(number * 10 + 0.5);
  for (uint32_t i = 0; what == 'p' && i < 4; ++i) {
    if (text == priority_text(i)) request.priority = i + 1;
  }
  if (what == 'x') {
    if (text != "y") return "it goes on";
    request.action = protocol::SteerAction::kKill;
  } else if (request.memory_bytes == 0 && request.weight == 0 && request.cap_permille == 0 &&
             request.priority == 0) {
    return "'" + text + "' makes no sense here";
  }
  protocol::SteerReply reply;
  const ServerAnswer answer = steer_server(server, request, &reply);
  return answer.state == ServerState::kAnswers ? "done" : problem_text(answer);
}

// Keys and what they have begun. Whether to go on is what press() says.
class Hand {
 public:
  Hand(std::string server, TopView* view) : server_(std::move(server)), view_(view) {}

  bool press(int key) {
    if (asking_ != 0) return type(key);
    if (key != kKeyNone) note_.clear();
    if (key == 'q' || key == kKeyEnd) return false;
    if (key == 's') view_->next_order();
    if (key == 'r') view_->reverse();
    if (key == kKeyUp || key == 'k') view_->move(-1);
    if (key == kKeyDown || key == 'j') view_->move(1);
    if (view_->selected() != 0 && key > 0 && key < 128 &&
        std::string("mwcpx").find(static_cast<char>(key)) != std::string::npos) {
      asking_ = static_cast<char>(key);
      session_ = view_->selected();
      typed_.clear();
    }
    return true;
  }

  std::string note() const {
    if (asking_ == 0) return note_.empty() ? kKeys : note_ + "   (" + kKeys + ")";
    const char* what = asking_ == 'm'   ? "memory (like 2G)"
                       : asking_ == 'w' ? "share (1 to 10000)"
                       : asking_ == 'c' ? "cap (percent)"
                       : asking_ == 'p' ? "priority (system, latency, normal, spot)"
                                        : "end its session? (y)";
    return "guest " + std::to_string(session_) + ", " + what + ": " + typed_ + "_";
  }

 private:
  bool type(int key) {
    if (key == kKeyEnd) return false;
    if (key == 0x1b) {
      asking_ = 0;
    } else if (key == '\r' || key == '\n') {
      note_ = apply(server_, session_, asking_, typed_);
      asking_ = 0;
    } else if (key == 127 || key == 8) {
      if (!typed_.empty()) typed_.pop_back();
    } else if (key > 0x20 && key < 0x7f && typed_.size() < kInputMax) {
      typed_ += static_cast<char>(key);
    }
    return true;
  }

  const std::string server_;
  TopView* const view_;
  char asking_ = 0;
  uint64_t session_ = 0;
  std::string typed_, note_;
};

int show_live(const std::string& server, const TopOptions& options) {
  TopView view;
  ServerAnswer answer;
  {
    Hand hand(server, &view);
    Terminal terminal;
    const bool utf8 = Terminal::utf8();
    const auto interval_ns = static_cast<uint64_t>(options.interval_s * 1e9);
    uint64_t next_ns = 0;
    for (unsigned pictures = 0; options.count == 0 || pictures < options.count;) {
      if (monotonic_ns() >= next_ns) {
        protocol::GuestsReply guests;
        answer = list_guests(server, &guests);
        if (answer.state != ServerState::kAnswers) break;
        view.take(guests, monotonic_ns());
        next_ns = monotonic_ns() + interval_ns;
        ++pictures;
      }
      size_t columns = 0, lines = 0;
      terminal.size(&columns, &lines);
      terminal.show(view.picture(columns, lines, hand.note(), utf8));
      const uint64_t now = monotonic_ns();
      const int left_ms = now >= next_ns ? 0 : static_cast<int>((next_ns - now) / 1'000'000 + 1);
      if (!hand.press(terminal.key(left_ms))) return 0;
    }
  }
  return answer.state == ServerState::kAnswers ? 0 : complain(answer);
}

int show_lines(const std::string& server, const TopOptions& options) {
  TopView view;
  for (unsigned pictures = 0; options.count == 0 || pictures < options.count; ++pictures) {
    if (pictures != 0) (void)::poll(nullptr, 0, static_cast<int>(options.interval_s * 1e3));
    protocol::GuestsReply guests;
    const ServerAnswer answer = list_guests(server, &guests);
    if (answer.state != ServerState::kAnswers) return complain(answer);
    view.take(guests, monotonic_ns());
    if (options.json) {
      std::printf("%s\n", guests_json(guests).dump().c_str());
    } else {
      std::printf("%s%s", pictures == 0 ? "" : "\n", view.plain().c_str());
    }
    if (std::fflush(stdout) != 0) return 0;  // nobody reads any more
  }
  return 0;
}

}  // namespace

int show_top(const std::string& server, const TopOptions& options) {
  return options.json || !Terminal::there() ? show_lines(server, options)
                                            : show_live(server, options);
}

}  // namespace vgpu::tools
