// Publishing upwards, applying downwards.
// SPDX-License-Identifier: Apache-2.0
#include "net/fabric/guest_mover.h"

#include <algorithm>
#include <cstring>

namespace vgpu::net {
using protocol::Semaphore;

GuestMover::GuestMover(const protocol::ChannelView& view)
    : view_(view), replies_(view), semaphores_(view) {}

Status GuestMover::connect(Link* link, const Positions& theirs) {
  const uint32_t begin = queue_begin_.load(std::memory_order_relaxed);
  const uint32_t end = queue_end_.load(std::memory_order_acquire);
  const uint64_t lost = expectations_sent_ - theirs.expectations;
  if (theirs.tail < head_ || theirs.tail > tail_sent_ || theirs.finished > finished_sent_ ||
      lost > protocol::kReplySlots || end - begin + lost > kQueued) {
    return Status(StatusCode::kMalformed, "the gate resumes where it cannot be");
  }
  link_ = link;
  gone_ = false;
  blocked_.store(false, std::memory_order_relaxed);
  credits_ = Credits();
  tail_sent_ = ring_sent_ = theirs.tail;
  finished_sent_ = theirs.finished;
  expectations_sent_ = theirs.expectations;
  const auto first = static_cast<uint32_t>(begin - lost);
  for (uint32_t i = first; i != begin; ++i) slots_[queue_[i % kQueued].slot].outstanding = false;
  queue_begin_.store(first, std::memory_order_relaxed);
  while (!staged_.empty() && staged_.front().told < theirs.tail) staged_.pop_front();
  staged_again_ = staged_.size();
  return ok_status();
}

void GuestMover::disconnect() {
  link_ = nullptr;
  gone_ = true;
}

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
  if (staged_again_ != 0 && !send_staged()) {
    blocked_.store(true, std::memory_order_relaxed);
    return false;
  }
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
  expectations_sent_ += header.expectations;
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

bool GuestMover::stage(uint64_t offset, uint64_t bytes, uint64_t* done) {
  if (gone_ || (staged_again_ != 0 && !send_staged())) return false;
  const std::byte* from = view_.up_slab().data() + offset;
  while (*done < bytes) {
    const uint64_t some = std::min(bytes - *done, kWriteBytesMax);
    const uint64_t place = offset + *done;
    const Sent sent = link_->write({from + *done, some}, view_.sizes().ring_bytes + place, 0);
    note(sent);
    if (sent != Sent::kDone) return false;
    *done += some;
    staged_.push_back({place, some, tail_sent_});
  }
  return true;
}

// Again, what the gate may not have: before anything that tells of it. False: the link is full.
bool GuestMover::send_staged() {
  while (staged_again_ != 0) {
    Staged& next = staged_[staged_.size() - staged_again_];
    const Sent sent = link_->write({view_.up_slab().data() + next.offset, next.bytes},
                                   view_.sizes().ring_bytes + next.offset, 0);
    note(sent);
    if (sent != Sent::kDone) return false;
    next.told = tail_sent_;
    --staged_again_;
  }
  return true;
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
    while (staged_.size() > staged_again_ && staged_.front().told < head_) staged_.pop_front();
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
  ++answers_;
  if (!answer.down.empty())
    std::memcpy(view_.down_slab().data() + slot.offset, answer.down.data(), answer.down.size());
  replies_.complete(answer.slot, answer.result, answer.payload);
  return true;
}

}  // namespace vgpu::net
