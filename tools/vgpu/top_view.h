// What vgpu top shows: rates out of two listings, histories, order and selection. Pure: no
// terminal, no server, no clock.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_TOP_VIEW_H_
#define VGPU_TOOLS_VGPU_TOP_VIEW_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "protocol/session/messages.h"

namespace vgpu::tools {

inline constexpr size_t kHistory = 60;  // pictures that a sparkline reaches back

enum class TopOrder : uint8_t { kUse, kMemory, kWait, kWeight, kName };
inline constexpr size_t kTopOrders = 5;

// A guest between two listings. Fractions are of the time between them.
struct GuestRates {
  protocol::GuestState state;
  double compute = 0, copy_to = 0, copy_from = 0;  // of one device's engine
  double waiting = 0, throttled = 0;
  double kernels_per_s = 0, bytes_per_s = 0;
  double entitled = 0;  // of the first device: its weight among those who use or want it
};

class TopView {
 public:
  // A listing taken at `now_ns`. Rates are there from the second one on.
  void take(const protocol::GuestsReply& guests, uint64_t now_ns);

  void next_order();
  void reverse() { reversed_ = !reversed_; }
  void move(int rows);
  // 0: there are no guests.
  uint64_t selected() const;

  // Guests in the order of the picture.
  std::vector<GuestRates> rows() const;
  // Lines of at most `columns` columns, at most `lines` of them. `note` is the last line.
  std::string picture(size_t columns, size_t lines, const std::string& note, bool utf8) const;
  // The same as a table for a file.
  std::string plain() const;

 private:
  std::string device_line(size_t device, bool utf8) const;
  std::string guest_line(const GuestRates& guest, bool utf8) const;
  void entitle();

  protocol::GuestsReply last_;
  uint64_t last_ns_ = 0;
  std::map<uint64_t, GuestRates> guests_;
  std::map<uint64_t, std::deque<double>> history_;  // of compute, by session
  std::vector<std::deque<double>> device_history_;
  TopOrder order_ = TopOrder::kUse;
  bool reversed_ = false;
  uint64_t selected_ = 0;
};

// One character for each value of 0 to 1, the last `width` of them, right-aligned.
std::string sparkline(const std::deque<double>& values, size_t width, bool utf8);
// "[####    ]"
std::string bar(double filled, size_t width);
// The beginning of a text that fits; one column for each code point.
std::string cut_to(const std::string& text, size_t columns);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_TOP_VIEW_H_
