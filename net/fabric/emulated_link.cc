// Holding back, in order.
// SPDX-License-Identifier: Apache-2.0
#include "net/fabric/emulated_link.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "net/fabric/messages.h"
#include "protocol/ring/doorbell.h"

namespace vgpu::net {
namespace {

constexpr size_t kOperationsMax = 512;
// What a socket's buffers would hold of writes whose source may be used again.
constexpr uint64_t kCopiedBytesMax = 8 << 20;

// "100us" in nanoseconds; negative: no time.
int64_t parse_time(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string_view unit(end);
  if (end == text.c_str() || value < 0 || value > 1e9) return -1;
  if (unit == "ns") return static_cast<int64_t>(value);
  if (unit == "us") return static_cast<int64_t>(value * 1e3);
  return unit == "ms" ? static_cast<int64_t>(value * 1e6) : -1;
}

bool set(Emulation* emulation, const std::string& name, const std::string& value) {
  char* end = nullptr;
  if (name == "rtt") return (emulation->round_trip_ns = parse_time(value)) >= 0;
  if (name == "jitter") return (emulation->jitter_ns = parse_time(value)) >= 0;
  if (name == "gbps") {
    emulation->bits_per_s = std::strtod(value.c_str(), &end) * 1e9;
    return *end == '\0' && emulation->bits_per_s > 0;
  }
  if (name == "cut") {
    emulation->cut_after = std::strtoull(value.c_str(), &end, 10);
    return *end == '\0' && emulation->cut_after > 0;
  }
  if (name != "seed") return false;
  emulation->seed = std::strtoull(value.c_str(), &end, 10);
  return *end == '\0';
}

}  // namespace

Result<Emulation> parse_emulation(std::string_view text) {
  Emulation emulation;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string part(text.substr(0, comma));
    const size_t equals = part.find('=');
    if (equals == std::string::npos ||
        !set(&emulation, part.substr(0, equals), part.substr(equals + 1))) {
      return Status(StatusCode::kInvalidArgument,
                    "not rtt=, gbps=, jitter=, cut= or seed=: " + part);
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return emulation;
}

// When something of this size arrives that goes now. Later than all before it.
int64_t EmulatedLink::due(Way* way, uint64_t bytes) {
  way->free_ns = std::max(way->free_ns, protocol::now_ns());
  if (emulation_.bits_per_s > 0)
    way->free_ns += static_cast<int64_t>(static_cast<double>(bytes) * 8e9 / emulation_.bits_per_s);
  int64_t arrives = way->free_ns + emulation_.round_trip_ns / 2;
  if (emulation_.jitter_ns > 0)
    arrives += static_cast<int64_t>(random_() % static_cast<uint64_t>(emulation_.jitter_ns + 1));
  return way->last_ns = std::max(way->last_ns, arrives);
}

Sent EmulatedLink::write(std::span<const std::byte> from, uint64_t offset, uint64_t token) {
  if (going_.size() >= kOperationsMax) return Sent::kFull;
  Operation operation;
  operation.offset = offset;
  operation.from = from;
  if (token != 0) {
    if (copied_bytes_ + from.size() > kCopiedBytesMax) return Sent::kFull;
    copied_bytes_ += from.size();
    operation.bytes.assign(from.begin(), from.end());
    left_.push_back(token);
  }
  operation.due_ns = due(&out_, from.size());
  going_.push_back(std::move(operation));
  return Sent::kDone;
}

// Counts a message. Whether the connection is cut at it: then neither it nor what is held back
// arrives.
bool EmulatedLink::cut_now() {
  if (until_cut_ == 0 || --until_cut_ != 0) return false;
  until_cut_ = 1;  // it stays cut
  going_.clear();
  coming_.clear();
  left_.clear();
  over_ = true;
  return true;
}

Sent EmulatedLink::send(std::span<const std::byte> message) {
  if (over_ || cut_now()) return Sent::kGone;
  if (going_.size() >= kOperationsMax) return Sent::kFull;
  Operation operation;
  operation.is_message = true;
  operation.bytes.assign(message.begin(), message.end());
  operation.due_ns = due(&out_, message.size());
  going_.push_back(std::move(operation));
  return Sent::kDone;
}

// Gives what is due to the link below. False: that link is over.
bool EmulatedLink::forward() {
  const int64_t now = protocol::now_ns();
  while (!going_.empty() && going_.front().due_ns <= now) {
    const Operation& next = going_.front();
    const bool copied = !next.is_message && !next.bytes.empty();
    // What was copied is read where it lies until it has left.
    const Sent sent = next.is_message ? below_->send(next.bytes)
                                      : below_->write(copied ? next.bytes : next.from, next.offset,
                                                      copied ? 1 : 0);
    if (sent == Sent::kGone) return false;
    if (sent == Sent::kFull) return true;
    if (copied) {
      copied_bytes_ -= next.bytes.size();
      leaving_.push_back(std::move(going_.front().bytes));
    }
    going_.pop_front();
  }
  return true;
}

void EmulatedLink::written(uint64_t /*token*/) {
  if (!leaving_.empty()) leaving_.pop_front();  // they leave in their order
}

bool EmulatedLink::received(std::span<const std::byte> message) {
  if (over_ || cut_now()) return true;
  MessageHeader header;
  uint64_t bytes = message.size();
  if (read_header(message, &header) && header.kind == MessageKind::kReport &&
      message.size() >= sizeof(ReportHeader)) {
    ReportHeader report;
    std::memcpy(&report, message.data(), sizeof(report));
    bytes += report.moved;
  }
  Operation operation;
  operation.is_message = true;
  operation.bytes.assign(message.begin(), message.end());
  operation.due_ns = due(&in_, bytes);
  coming_.push_back(std::move(operation));
  return true;
}

int EmulatedLink::poll(LinkSink* sink) {
  if (over_ || !forward() || below_->poll(this) < 0) over_ = true;
  int happened = static_cast<int>(left_.size());
  for (const uint64_t token : left_) sink->written(token);
  left_.clear();
  while (!coming_.empty() && (over_ || coming_.front().due_ns <= protocol::now_ns())) {
    const Operation next = std::move(coming_.front());
    coming_.pop_front();
    ++happened;
    if (!sink->received(next.bytes)) {
      below_->shut_down();
      over_ = true;
      coming_.clear();
    }
  }
  return over_ ? -1 : happened;
}

bool EmulatedLink::may_sleep() {
  const int64_t now = protocol::now_ns();
  const bool due_now = (!going_.empty() && going_.front().due_ns <= now) ||
                       (!coming_.empty() && coming_.front().due_ns <= now) || !left_.empty();
  return !due_now && below_->may_sleep();
}

int64_t EmulatedLink::sleep_ns() {
  int64_t due_ns = INT64_MAX;
  if (!going_.empty()) due_ns = std::min(due_ns, going_.front().due_ns);
  if (!coming_.empty()) due_ns = std::min(due_ns, coming_.front().due_ns);
  return due_ns == INT64_MAX ? -1 : std::max<int64_t>(due_ns - protocol::now_ns(), 0);
}

}  // namespace vgpu::net
