// Publishing upwards, applying downwards.
// SPDX-License-Identifier: Apache-2.0
#include "net/fabric/guest_mover.h"

#include <algorithm>
#include <cstring>

namespace vgpu::net {
namespace {

constexpr uint64_t kCountedWrite = 1;  // the only token

}  // namespace

using protocol::Semaphore;

GuestMover::GuestMover(const protocol::ChannelView& view, Link* link)
    : view_(view), link_(link), replies_(view), semaphores_(view) {}

void GuestMover::expect(uint32_t slot, uint64_t offset, uint64_t bytes) {
  const uint32_t end = queue_end_.load(std::memory_order_relaxed);
  queue_[end % kQueued] = {slot, 0, offset, bytes};
  queue_end_.store(end + 1, std::memory_order_release);  // partner: send_update
}

bool GuestMover::pending() const {
  return view_.header()->tail.position.load(std::memory_order_acquire) != tail_sent_ ||
         view_.host_calls()->finished.position.load(std::memory_order_acquire) != finished_sent_;
}

bool GuestMover::flush() {
  if (gone_) return false;
  blocked_.store(false, std::memory_order_relaxed);
  if (!pending()) return credits_.ack_due() && send_ack();
  // The tail is read before the expectations: those of all records below it are in the queue.
  const uint64_t tail = view_.header()->tail.position.load(std::memory_order_acquire);
  const bool inlined = tail - tail_sent_ <= kInlineRingBytesMax && ring_sent_ == tail_sent_;
  const bool goes =
      (inlined || send_ring(tail)) && credits_.may_send() && send_update(tail, inlined);
  blocked_.store(!goes, std::memory_order_relaxed);
  return goes;
}

// Writes the ring's bytes up to `tail` into the gate's. False: the link is full for now.
bool GuestMover::send_ring(uint64_t tail) {
  const uint64_t mask = view_.sizes().ring_bytes - 1;
  while (ring_sent_ != tail) {
    const uint64_t place = ring_sent_ & mask;
    const uint64_t bytes =
        std::min({tail - ring_sent_, view_.sizes().ring_bytes - place, kWriteBytesMax});
    const Sent sent = link_->write({view_.ring() + place, bytes}, place, 0);
    note(sent);
    if (sent != Sent::kDone) return false;
    ring_sent_ += bytes;
  }
  return true;
}

bool GuestMover::send_update(uint64_t tail, bool inlined) {
  UpdateHeader header{};
  message_.clear();
  message_.append(header);
  const uint32_t begin = queue_begin_.load(std::memory_order_relaxed);
  const uint32_t end = queue_end_.load(std::memory_order_acquire);
  header.expectations = std::min(end - begin, protocol::kReplySlots);
  for (uint32_t i = 0; i < header.expectations; ++i) message_.append(queue_[(begin + i) % kQueued]);
  if (inlined && tail != tail_sent_) {
    header.inline_bytes = static_cast<uint32_t>(tail - tail_sent_);
    const uint64_t place = tail_sent_ & (view_.sizes().ring_bytes - 1);
    const uint64_t first =
        std::min<uint64_t>(header.inline_bytes, view_.sizes().ring_bytes - place);
    message_.append(view_.ring() + place, first);  // whole records: multiples of 16
    message_.append(view_.ring(), header.inline_bytes - first);
  }
  header.tail = tail;
  header.finished = view_.host_calls()->finished.position.load(std::memory_order_acquire);
  header.header = {MessageKind::kUpdate, static_cast<uint32_t>(message_.bytes().size()),
                   credits_.received()};
  message_.set_front(header);
  // Before it goes: the answer must find them.
  const Sent sent = link_->send(message_.bytes());
  note(sent);
  if (sent != Sent::kDone) return false;
  credits_.sent();
  for (uint32_t i = 0; i < header.expectations; ++i) {
    const Expectation& each = queue_[(begin + i) % kQueued];
    slots_[each.slot] = {true, each.offset, each.bytes};
  }
  queue_begin_.store(begin + header.expectations, std::memory_order_relaxed);
  tail_sent_ = ring_sent_ = tail;
  finished_sent_ = header.finished;
  return true;
}

bool GuestMover::send_ack() {
  const MessageHeader header{MessageKind::kAck, sizeof(MessageHeader), credits_.received()};
  const Sent sent = link_->send(std::as_bytes(std::span(&header, 1)));
  note(sent);
  if (sent == Sent::kDone) credits_.sent();
  return sent == Sent::kDone;
}

bool GuestMover::stage(uint64_t offset, std::span<const std::byte> from, bool counted,
                       uint64_t* done) {
  const uint64_t start = view_.sizes().ring_bytes + offset;
  while (*done < from.size() && !gone_) {
    const uint64_t bytes = std::min<uint64_t>(from.size() - *done, kWriteBytesMax);
    const Sent sent =
        link_->write(from.subspan(*done, bytes), start + *done, counted ? kCountedWrite : 0);
    note(sent);
    if (sent != Sent::kDone) return false;
    counted_ += counted ? 1 : 0;
    *done += bytes;
  }
  return !gone_;
}

bool GuestMover::poll() {
  if (gone_) return false;
  const int happened = link_->poll(this);
  if (happened < 0 || !error_.ok()) gone_ = true;
  return happened > 0;
}

bool GuestMover::fault(const char* what) {
  error_ = Status(StatusCode::kMalformed, what);
  return false;
}

bool GuestMover::received(std::span<const std::byte> message) {
  MessageHeader header;
  if (!read_header(message, &header)) return fault("the gate sent no message of the protocol");
  if (!credits_.on_received(header.acked)) return fault("the gate acknowledged what never was");
  if (header.kind == MessageKind::kAck) return true;
  if (header.kind != MessageKind::kReport) return fault("the gate sent what is not a report");
  error_ = read_report(message, &report_);
  return error_.ok() && apply(report_);
}

// Words first, answers last: who has an answer sees all that was published before it.
bool GuestMover::apply(const Report& report) {
  if (report.header.head < head_ || report.header.head > tail_sent_)
    return fault("the gate reported an impossible head");
  if (!apply_calls(report)) return false;
  apply_words(report);
  for (const Report::Answer& each : report.answers) {
    if (!answer(each)) return false;
  }
  return true;
}

void GuestMover::apply_words(const Report& report) {
  const ReportHeader& header = report.header;
  if (report.has_page) {
    protocol::SemaphorePage* page = view_.semaphores();
    for (size_t i = 0; i < protocol::kContextSlots; ++i)
      page->sticky[i].store(report.page.sticky[i], std::memory_order_release);
    for (size_t i = 0; i < protocol::kHoldWords; ++i)
      page->held[i].store(report.page.held[i], std::memory_order_release);
    for (uint32_t i = 0; i < protocol::kDevicesMax; ++i)
      semaphores_.raise_credit(i, report.page.backed_credit[i]);
    for (size_t i = 0; i < protocol::kDevicesMax; ++i)
      page->quota[i].store(report.page.quota[i], std::memory_order_release);
    protocol::wake_waiters(&page->waiters);
  }
  constexpr Semaphore kOrder[] = {Semaphore::kExecuted, Semaphore::kSlabRetired,
                                  Semaphore::kFreeRetired, Semaphore::kOutput};
  for (size_t i = kSequences; i-- > 0;) semaphores_.raise(kOrder[i], header.sequences[i]);
  if (header.session_state != session_state_) {
    session_state_ = header.session_state;
    semaphores_.set_state(static_cast<protocol::SessionState>(session_state_),
                          header.session_error);
  }
  if (header.head != head_) {
    head_ = header.head;
    // release: partner is Producer::refresh_head.
    view_.header()->head.position.store(head_, std::memory_order_release);
    protocol::ring_doorbell(protocol::Bell(), &view_.header()->producer_sleep.sleeping);
  }
}

bool GuestMover::apply_calls(const Report& report) {
  if (report.header.posted - posted_ != report.calls.size())
    return fault("the gate posted host calls without their entries");
  if (report.calls.empty()) return true;
  protocol::HostCallPage* page = view_.host_calls();
  const uint64_t finished = page->finished.position.load(std::memory_order_acquire);
  if (report.header.posted - finished > protocol::kHostCallEntries)
    return fault("the gate posted too many host calls");
  for (const protocol::HostCallEntry& call : report.calls)
    page->entries[posted_++ % protocol::kHostCallEntries] = call;
  // release: partner is HostCallReader::next.
  page->posted.position.store(posted_, std::memory_order_release);
  protocol::ring_doorbell(protocol::Bell(), &page->guest_sleep.sleeping);
  return true;
}

bool GuestMover::answer(const Report::Answer& answer) {
  Slot& slot = slots_[answer.slot];
  if (!slot.outstanding) return fault("the gate answered what was not asked");
  if (answer.down.size() > slot.bytes) return fault("the gate sent more results than asked for");
  slot.outstanding = false;
  if (!answer.down.empty())
    std::memcpy(view_.down_slab().data() + slot.offset, answer.down.data(), answer.down.size());
  replies_.complete(answer.slot, answer.result, answer.payload);
  return true;
}

}  // namespace vgpu::net
