// Differences of counters over time.
// SPDX-License-Identifier: Apache-2.0
#include "nvml/window.h"

#include <algorithm>

namespace vgpu::nvml {
namespace {

// Numbers of scheduler::Engine, as they come over the wire.
constexpr size_t kCompute = 0, kFirstCopy = 1;

double part_of(uint64_t before, uint64_t after, double span) {
  const uint64_t used = after > before ? after - before : 0;  // never backwards, whoever wrote it
  return std::min(1.0, static_cast<double>(used) / span);
}

}  // namespace

void Window::add(const protocol::FiguresReply& figures) {
  if (!samples_.empty() && figures.now_ns <= samples_.back().now_ns) samples_.clear();
  Sample sample;
  sample.now_ns = figures.now_ns;
  for (const protocol::OwnGuest& guest : figures.guests) {
    Guest& kept = sample.guests.emplace_back();
    kept.session = guest.session;
    kept.devices = std::max<size_t>(1, guest.uses.size());
    for (size_t i = 0; i < guest.engine_ns.size(); ++i) {
      if (i == kCompute) kept.compute_ns = guest.engine_ns[i];
      // Both directions run at the same time: the longer one says how long there were copies.
      if (i >= kFirstCopy) kept.copies_ns = std::max(kept.copies_ns, guest.engine_ns[i]);
    }
  }
  samples_.push_back(std::move(sample));
  const uint64_t now = samples_.back().now_ns;
  while (samples_.size() > 2 &&
         (samples_[1].now_ns + kWindowNs <= now || samples_.size() > kSamplesMax)) {
    samples_.pop_front();
  }
}

uint64_t Window::span_ns() const {
  return samples_.size() < 2 ? 0 : samples_.back().now_ns - samples_.front().now_ns;
}

std::vector<TimeShare> Window::shares() const {
  if (samples_.empty()) return {};
  const std::vector<Guest>& newest = samples_.back().guests;
  std::vector<TimeShare> shares(newest.size());
  if (span_ns() == 0) return shares;
  const std::vector<Guest>& oldest = samples_.front().guests;
  for (size_t i = 0; i < newest.size(); ++i) {
    const auto same = [&](const Guest& guest) { return guest.session == newest[i].session; };
    const auto at = std::find_if(oldest.begin(), oldest.end(), same);
    const Guest before = at != oldest.end() ? *at : Guest{};  // came within the window
    const double span = static_cast<double>(span_ns()) * static_cast<double>(newest[i].devices);
    shares[i].compute = part_of(before.compute_ns, newest[i].compute_ns, span);
    shares[i].copies = part_of(before.copies_ns, newest[i].copies_ns, span);
  }
  return shares;
}

}  // namespace vgpu::nvml
