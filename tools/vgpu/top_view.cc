// Rates, histories and lines of vgpu top.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/top_view.h"

#include <algorithm>
#include <cmath>

#include "tools/vgpu/guests.h"
#include "tools/vgpu/table.h"

namespace vgpu::tools {
namespace {

using protocol::GuestState;

constexpr const char* kOrderNames[kTopOrders] = {"use", "memory", "wait", "weight", "name"};
constexpr size_t kSparkColumns = 16, kBarColumns = 12;

uint64_t sum(const std::vector<uint64_t>& values) {
  uint64_t all = 0;
  for (const uint64_t each : values) all += each;
  return all;
}

// Of counters that only rise; a worker may say anything, so one that falls gives 0.
double rise(uint64_t from, uint64_t to) { return to > from ? static_cast<double>(to - from) : 0; }

std::string fixed(const std::string& text, size_t columns, bool left) {
  const std::string part = cut_to(text, columns);
  const std::string blanks(columns - std::min(columns, display_width(part)), ' ');
  return left ? part + blanks : blanks + part;
}

std::string percent(double fraction) {
  return number_text(std::min(fraction, 99.99) * 100, 0) + "%";
}

void remember(std::deque<double>* history, double value) {
  history->push_back(value);
  if (history->size() > kHistory) history->pop_front();
}

GuestRates rates_between(const GuestState& from, const GuestState& to, double seconds) {
  GuestRates rates;
  const double ns = seconds * 1e9;
  rates.compute = rise(from.device_ns[0], to.device_ns[0]) / ns;
  rates.copy_to = rise(from.device_ns[1], to.device_ns[1]) / ns;
  rates.copy_from = rise(from.device_ns[2], to.device_ns[2]) / ns;
  rates.waiting = rise(from.wait_ns, to.wait_ns) / ns;
  rates.throttled = rise(from.throttled_ns, to.throttled_ns) / ns;
  rates.kernels_per_s = rise(from.kernels, to.kernels) / seconds;
  rates.bytes_per_s = (rise(from.copied_bytes[0], to.copied_bytes[0]) +
                       rise(from.copied_bytes[1], to.copied_bytes[1])) /
                      seconds;
  return rates;
}

struct Column {
  const char* head;
  size_t columns;
  bool left;
};
constexpr Column kColumns[] = {{"pid", 8, false},          {"name", 16, true},
                               {"tenant", 10, true},       {"class", 7, true},
                               {"weight", 6, false},       {"due", 5, false},
                               {"used", 5, false},         {"history", kSparkColumns, true},
                               {"wait", 5, false},         {"held", 5, false},
                               {"kernels/s", 9, false},    {"copied/s", 10, false},
                               {"memory", 10, false},      {"of", 10, false},
                               {"", kBarColumns + 2, true}};

std::string row_text(const std::vector<std::string>& cells) {
  std::string line;
  for (size_t i = 0; i < std::size(kColumns); ++i)
    line += (i == 0 ? "" : " ") + fixed(cells[i], kColumns[i].columns, kColumns[i].left);
  return line;
}

}  // namespace

std::string cut_to(const std::string& text, size_t columns) {
  size_t at = 0, seen = 0;
  for (; at < text.size(); ++at) {
    if ((text[at] & 0xC0) == 0x80) continue;  // the rest of a code point
    if (seen == columns) break;
    ++seen;
  }
  return text.substr(0, at);
}

std::string sparkline(const std::deque<double>& values, size_t width, bool utf8) {
  static constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr const char* kPlain[] = {" ", ".", ".", ":", ":", "-", "=", "*", "#"};
  std::string line;
  const size_t shown = std::min(width, values.size());
  for (size_t i = values.size() - shown; i < values.size(); ++i) {
    const double value = std::clamp(std::isfinite(values[i]) ? values[i] : 0.0, 0.0, 1.0);
    const auto level = static_cast<size_t>(std::ceil(value * 8 - 1e-9));
    line += (utf8 ? kBlocks : kPlain)[level];
  }
  return std::string(width - shown, ' ') + line;
}

std::string bar(double filled, size_t width) {
  const double part = std::clamp(std::isfinite(filled) ? filled : 0.0, 0.0, 1.0);
  const auto full = static_cast<size_t>(std::lround(part * static_cast<double>(width)));
  return "[" + std::string(full, '#') + std::string(width - full, ' ') + "]";
}

void TopView::take(const protocol::GuestsReply& guests, uint64_t now_ns) {
  const double seconds = static_cast<double>(now_ns - last_ns_) / 1e9;
  const bool comparable = last_ns_ != 0 && seconds > 0;
  std::map<uint64_t, GuestRates> now;
  std::vector<double> busy(guests.devices.size(), 0);
  for (const GuestState& state : guests.guests) {
    const auto before = guests_.find(state.session);
    GuestRates rates;
    if (comparable && before != guests_.end())
      rates = rates_between(before->second.state, state, seconds);
    rates.state = state;
    remember(&history_[state.session], rates.compute);
    // Its time is not told apart by devices.
    for (const uint8_t device : state.devices) {
      // A listing of several pages may be of two servers, when one was started between them.
      if (device >= busy.size()) continue;
      busy[device] += rates.compute / static_cast<double>(state.devices.size());
    }
    now[state.session] = std::move(rates);
  }
  std::erase_if(history_, [&](const auto& each) { return now.count(each.first) == 0; });
  guests_ = std::move(now);
  device_history_.resize(guests.devices.size());
  for (size_t i = 0; i < busy.size(); ++i) remember(&device_history_[i], busy[i]);
  last_ = guests;
  last_ns_ = now_ns;
  entitle();
  if (guests_.count(selected_) == 0) selected_ = 0;
}

// The weights of those that use the device or wait for it say what each is due; who wants nothing
// is due nothing.
void TopView::entitle() {
  const auto wants = [](const GuestRates& guest) {
    return guest.compute > 0.001 || guest.waiting > 0.001;
  };
  for (auto& [session, guest] : guests_) {
    double all = 0;
    for (const auto& [other_session, other] : guests_) {
      const bool together = !guest.state.devices.empty() && !other.state.devices.empty() &&
                            guest.state.devices[0] == other.state.devices[0];
      if (together && wants(other) && other.state.priority == guest.state.priority)
        all += other.state.weight;
    }
    guest.entitled = wants(guest) && all > 0 ? guest.state.weight / all : 0;
    guest.entitled = std::min(guest.entitled, guest.state.cap_permille / 1000.0);
  }
}

void TopView::next_order() {
  order_ = static_cast<TopOrder>((static_cast<size_t>(order_) + 1) % kTopOrders);
}

std::vector<GuestRates> TopView::rows() const {
  std::vector<GuestRates> rows;
  for (const auto& [session, guest] : guests_) rows.push_back(guest);
  const auto before = [this](const GuestRates& a, const GuestRates& b) {
    switch (order_) {
      case TopOrder::kUse:
        return a.compute > b.compute;
      case TopOrder::kMemory:
        return sum(a.state.used_bytes) > sum(b.state.used_bytes);
      case TopOrder::kWait:
        return a.waiting > b.waiting;
      case TopOrder::kWeight:
        return a.state.weight > b.state.weight;
      case TopOrder::kName:
        break;
    }
    return guest_name(a.state) < guest_name(b.state);
  };
  std::stable_sort(rows.begin(), rows.end(), before);
  if (reversed_) std::reverse(rows.begin(), rows.end());
  return rows;
}

uint64_t TopView::selected() const {
  if (selected_ != 0 || guests_.empty()) return selected_;
  return rows().front().state.session;
}

void TopView::move(int by) {
  const std::vector<GuestRates> all = rows();
  if (all.empty()) return;
  const uint64_t now = selected();
  const auto at = std::find_if(all.begin(), all.end(),
                               [&](const auto& each) { return each.state.session == now; });
  const auto wanted =
      std::clamp<ptrdiff_t>(at - all.begin() + by, 0, static_cast<ptrdiff_t>(all.size()) - 1);
  selected_ = all[static_cast<size_t>(wanted)].state.session;
}

std::string TopView::device_line(size_t device, bool utf8) const {
  const protocol::DeviceState& state = last_.devices[device];
  double to = 0, from = 0;
  for (const auto& [session, guest] : guests_) {
    const auto& places = guest.state.devices;
    if (std::find(places.begin(), places.end(), device) == places.end()) continue;
    to += guest.copy_to / static_cast<double>(places.size());
    from += guest.copy_from / static_cast<double>(places.size());
  }
  const double granted =
      static_cast<double>(state.granted_bytes) / std::max<double>(1, state.capacity_bytes);
  const std::deque<double>& history = device_history_[device];
  return std::to_string(device) + "  " + fixed(state.name, 24, true) + " compute " +
         fixed(percent(history.empty() ? 0 : history.back()), 5, false) + " " +
         sparkline(history, kSparkColumns, utf8) + "  to it " + fixed(percent(to), 5, false) +
         "  from it " + fixed(percent(from), 5, false) + "  granted " +
         bytes_text(state.granted_bytes) + " of " + bytes_text(state.capacity_bytes) + " " +
         bar(granted, kBarColumns);
}

std::string TopView::guest_line(const GuestRates& guest, bool utf8) const {
  const GuestState& state = guest.state;
  const uint64_t used = sum(state.used_bytes), granted = sum(state.granted_bytes);
  const auto history = history_.find(state.session);
  return row_text(
      {std::to_string(state.pid), guest_name(state), state.tenant, priority_text(state.priority),
       std::to_string(state.weight), percent(guest.entitled), percent(guest.compute),
       history == history_.end() ? "" : sparkline(history->second, kSparkColumns, utf8),
       percent(guest.waiting), percent(guest.throttled), number_text(guest.kernels_per_s, 0),
       bytes_text(static_cast<uint64_t>(guest.bytes_per_s)), bytes_text(used), bytes_text(granted),
       bar(static_cast<double>(used) / std::max<double>(1, static_cast<double>(granted)),
           kBarColumns)});
}

std::string TopView::picture(size_t columns, size_t lines, const std::string& note,
                             bool utf8) const {
  std::vector<std::string> all;
  all.push_back("vgpu top: " + std::to_string(guests_.size()) + " guests, by " +
                kOrderNames[static_cast<size_t>(order_)] + (reversed_ ? ", least first" : "") +
                (last_.waiting != 0 ? ", " + std::to_string(last_.waiting) + " wait" : "") +
                (last_.draining ? ", draining" : ""));
  for (size_t i = 0; i < last_.devices.size(); ++i) all.push_back(device_line(i, utf8));
  all.emplace_back();
  std::vector<std::string> heads;
  for (const Column& column : kColumns) heads.emplace_back(column.head);
  all.push_back("  " + row_text(heads));
  const uint64_t chosen = selected();
  const size_t room = lines > 1 ? lines - 1 : 0;
  for (const GuestRates& guest : rows())
    all.push_back((guest.state.session == chosen ? "> " : "  ") + guest_line(guest, utf8));
  std::string text;
  for (size_t i = 0; i < room; ++i) text += (i < all.size() ? cut_to(all[i], columns) : "") + "\n";
  return text + cut_to(note, columns);
}

std::string TopView::plain() const {
  using Align = Table::Align;
  Table table({{"guest"},
               {"pid"},
               {"name", Align::kLeft},
               {"class", Align::kLeft},
               {"weight"},
               {"due"},
               {"used"},
               {"wait"},
               {"held"},
               {"kernels/s"},
               {"copied/s"},
               {"memory"},
               {"of"}});
  for (const GuestRates& guest : rows()) {
    const GuestState& state = guest.state;
    table.add({std::to_string(state.session), std::to_string(state.pid), guest_name(state),
               priority_text(state.priority), std::to_string(state.weight), percent(guest.entitled),
               percent(guest.compute), percent(guest.waiting), percent(guest.throttled),
               number_text(guest.kernels_per_s, 0),
               bytes_text(static_cast<uint64_t>(guest.bytes_per_s)),
               bytes_text(sum(state.used_bytes)), bytes_text(sum(state.granted_bytes))});
  }
  return guests_.empty() ? "  no guests\n" : table.text();
}

}  // namespace vgpu::tools
