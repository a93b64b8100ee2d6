// Publishing to the worker, reporting to the guest.
// SPDX-License-Identifier: Apache-2.0
#include "net/fabric/gate_mover.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "protocol/ring/doorbell.h"
#include "protocol/ring/reply.h"
#include "protocol/ring/semaphore.h"

namespace vgpu::net {

using protocol::Semaphore;
using protocol::SemaphoreReader;

GateMover::GateMover(const protocol::ChannelView& view) : view_(view) {}

Status GateMover::connect(Link* link, const Positions& theirs) {
  const Status impossible(StatusCode::kMalformed, "the guest resumes where it cannot be");
  if (theirs.head > told_.head || theirs.posted > told_.posted || theirs.posted < finished_ ||
      theirs.answers > answers_sent_ || answers_sent_ - theirs.answers > protocol::kReplySlots) {
    return impossible;
  }
  for (Slot& slot : slots_) slot.moved = 0;
  for (uint64_t i = theirs.answers; i != answers_sent_; ++i) {
    const uint32_t slot = answered_[i % protocol::kReplySlots];
    const uint64_t bit = uint64_t{1} << (slot % 64);
    if ((outstanding_[slot / 64] & bit) != 0) return impossible;  // who asks again has the answer
    outstanding_[slot / 64] |= bit;
  }
  answers_sent_ = theirs.answers;
  told_.head = theirs.head;
  told_.posted = theirs.posted;
  moved_ = 0;
  again_ = true;
  credits_ = Credits();
  link_ = link;
  gone_ = false;
  return ok_status();
}

void GateMover::disconnect() {
  link_ = nullptr;
  gone_ = true;
}

bool GateMover::poll() {
  if (gone_) return false;
  const int happened = link_->poll(this);
  if (happened < 0 || !error_.ok()) gone_ = true;
  return happened > 0;
}

bool GateMover::fault(const char* what) {
  error_ = Status(StatusCode::kMalformed, what);
  return false;
}

bool GateMover::received(std::span<const std::byte> message) {
  MessageHeader header;
  if (!read_header(message, &header)) return fault("the guest sent no message of the protocol");
  if (!credits_.on_received(header.acked)) return fault("the guest acknowledged what never was");
  if (header.kind == MessageKind::kAck) return true;
  if (header.kind != MessageKind::kUpdate) return fault("the guest sent what is not an update");
  error_ = read_update(message, view_.sizes(), &update_);
  return error_.ok() && apply(update_);
}

bool GateMover::apply(const Update& update) {
  if (update.tail < tail_ || update.tail - tail_ > view_.sizes().ring_bytes)
    return fault("the guest published an impossible tail");
  if (!update.inline_ring.empty() && update.inline_ring.size() != update.tail - tail_)
    return fault("the guest sent other records than it published");
  if (update.finished < finished_ || update.finished > told_.posted)
    return fault("the guest finished host calls that it does not have");
  for (const Expectation& each : update.expectations) {
    if (!expect(each)) return false;
  }
  publish(update);
  return true;
}

bool GateMover::expect(const Expectation& expectation) {
  uint64_t& word = outstanding_[expectation.slot / 64];
  const uint64_t bit = uint64_t{1} << (expectation.slot % 64);
  if ((word & bit) != 0) return fault("the guest uses a reply slot twice");
  word |= bit;
  ++expectations_;
  slots_[expectation.slot] = {expectation.offset, expectation.bytes, 0};
  // relaxed: the tail that lets the worker answer is published afterwards, with release.
  view_.replies()[expectation.slot].state.store(protocol::kReplyWatched, std::memory_order_relaxed);
  return true;
}

void GateMover::copy_inline(const Update& update) {
  const uint64_t place = tail_ & (view_.sizes().ring_bytes - 1);
  const uint64_t first =
      std::min<uint64_t>(update.inline_ring.size(), view_.sizes().ring_bytes - place);
  std::memcpy(view_.ring() + place, update.inline_ring.data(), first);
  std::memcpy(view_.ring(), update.inline_ring.data() + first, update.inline_ring.size() - first);
}

void GateMover::publish(const Update& update) {
  protocol::ChannelHeader* header = view_.header();
  if (update.tail != tail_) {
    if (!update.inline_ring.empty()) copy_inline(update);
    tail_ = update.tail;
    protocol::publish_cpu(&header->tail.cpu);
    // release: partner is Consumer::refresh_tail.
    header->tail.position.store(tail_, std::memory_order_release);
    protocol::ring_doorbell(protocol::Bell(), &header->consumer_sleep.sleeping);
  }
  if (update.finished != finished_) {
    finished_ = update.finished;
    protocol::HostCallPage* calls = view_.host_calls();
    // release: partner is HostCallWriter::wait_finished.
    calls->finished.position.store(finished_, std::memory_order_release);
    protocol::ring_doorbell(protocol::Bell(), &calls->worker_sleep.sleeping);
  }
}

// Sequences first, then what was published before they rose.
GateMover::Words GateMover::read_words() const {
  constexpr Semaphore kOrder[] = {Semaphore::kExecuted, Semaphore::kSlabRetired,
                                  Semaphore::kFreeRetired, Semaphore::kOutput};
  Words words;
  protocol::SemaphorePage* page = view_.semaphores();
  for (size_t i = 0; i < kSequences; ++i) {
    const uint64_t seen =
        SemaphoreReader::line(page, kOrder[i]).value.load(std::memory_order_acquire);
    words.sequences[i] = std::max(seen, told_.sequences[i]);
  }
  words.head = view_.header()->head.position.load(std::memory_order_acquire);
  words.posted = view_.host_calls()->posted.position.load(std::memory_order_acquire);
  words.state = page->session_state.load(std::memory_order_acquire);
  words.error = page->session_error.load(std::memory_order_relaxed);
  return words;
}

void GateMover::read_page(PageWords* page) const {
  protocol::SemaphorePage* from = view_.semaphores();
  for (size_t i = 0; i < protocol::kContextSlots; ++i)
    page->sticky[i] = from->sticky[i].load(std::memory_order_acquire);
  for (size_t i = 0; i < protocol::kHoldWords; ++i)
    page->held[i] = from->held[i].load(std::memory_order_acquire);
  for (size_t i = 0; i < protocol::kDevicesMax; ++i)
    page->backed_credit[i] = from->backed_credit[i].load(std::memory_order_acquire);
  for (size_t i = 0; i < protocol::kDevicesMax; ++i)
    page->quota[i] = from->quota[i].load(std::memory_order_acquire);
}

// Puts answers into answers_, as many as fit. Their slots stay outstanding until they have gone.
uint16_t GateMover::collect_answers() {
  answers_.clear();
  uint16_t count = 0;
  for (uint32_t word = 0; word < outstanding_.size(); ++word) {
    for (uint64_t left = outstanding_[word]; left != 0; left &= left - 1) {
      const uint32_t slot = word * 64 + static_cast<uint32_t>(std::countr_zero(left));
      // acquire: partner is ReplyWriter::complete.
      if (view_.replies()[slot].state.load(std::memory_order_acquire) != protocol::kReplyDone)
        continue;
      if (!collect_answer(slot)) return count;
      collected_[count++] = slot;
    }
  }
  return count;
}

bool GateMover::collect_answer(uint32_t index) {
  constexpr size_t kOthers = sizeof(ReportHeader) + sizeof(PageWords) +
                             protocol::kHostCallEntries * sizeof(protocol::HostCallEntry);
  const protocol::ReplySlot& from = view_.replies()[index];
  Slot& slot = slots_[index];
  ReplyEntry entry{index, from.result, 0, 0};
  entry.payload_bytes = std::min(from.payload_bytes, protocol::kReplyPayloadBytesMax);
  const bool inlined = slot.bytes <= kInlineDownBytesMax;
  if (inlined) entry.down_bytes = static_cast<uint32_t>(slot.bytes);
  const size_t wanted =
      sizeof(entry) + round_up_8(entry.payload_bytes) + round_up_8(entry.down_bytes);
  if (answers_.bytes().size() + wanted + kOthers > kMessageBytesMax) return false;
  if (!inlined && !move_results(&slot)) return false;
  answers_.append(entry);
  answers_.append(from.payload, entry.payload_bytes);
  answers_.append(view_.down_slab().data() + slot.offset, entry.down_bytes);
  return true;
}

bool GateMover::move_results(Slot* slot) {
  while (slot->moved < slot->bytes) {
    const uint64_t bytes = std::min(slot->bytes - slot->moved, kWriteBytesMax);
    const uint64_t place = slot->offset + slot->moved;
    const Sent sent = link_->write({view_.down_slab().data() + place, bytes}, place, 0);
    if (sent == Sent::kGone) gone_ = true;
    if (sent != Sent::kDone) return false;
    slot->moved += bytes;
    moved_ += bytes;
  }
  return true;
}

// Whether there is something that cannot wait.
bool GateMover::worth_sending(const Words& words, bool page_changed, int64_t now_ns, bool all) {
  constexpr size_t kOutput = kSequences - 1;
  if (words == told_ && !page_changed) return false;
  if (page_changed || words.state != told_.state || words.posted != told_.posted ||
      words.sequences[kOutput] != told_.sequences[kOutput] ||
      words.head - told_.head >= view_.sizes().ring_bytes / 8) {
    return true;
  }
  if (stale_since_ns_ == 0) stale_since_ns_ = now_ns;
  return all || now_ns - stale_since_ns_ >= kReportAgeNs;
}

bool GateMover::report(int64_t now_ns, bool all) {
  if (gone_) return false;
  if (!credits_.may_send()) return credits_.ack_due() && send_ack();
  const uint16_t replies = collect_answers();  // first: the words may be newer, never older
  const Words words = read_words();
  PageWords page;
  read_page(&page);
  const bool page_changed = again_ || page != page_;
  if (replies == 0 && !worth_sending(words, page_changed, now_ns, all))
    return credits_.ack_due() && send_ack();
  if (words.head < told_.head || words.head > tail_ ||
      words.posted - told_.posted > protocol::kHostCallEntries) {
    gone_ = true;  // no worker of ours does that
    error_ = Status(StatusCode::kMalformed, "the worker published an impossible position");
    return false;
  }
  return send(words, page_changed ? &page : nullptr, replies);
}

// `page` is null when the guest has it already.
bool GateMover::send(const Words& words, const PageWords* page, uint16_t replies) {
  ReportHeader header{};
  message_.clear();
  message_.append(header);
  if (page != nullptr) message_.append(*page);
  header.calls = static_cast<uint16_t>(words.posted - told_.posted);
  for (uint64_t i = told_.posted; i != words.posted; ++i)
    message_.append(view_.host_calls()->entries[i % protocol::kHostCallEntries]);
  const std::span<const std::byte> answers = answers_.bytes();
  message_.append(answers.data(), replies == 0 ? 0 : answers.size());
  header.header = {MessageKind::kReport, static_cast<uint32_t>(message_.bytes().size()),
                   credits_.received()};
  header.head = words.head;
  std::copy(words.sequences.begin(), words.sequences.end(), header.sequences);
  header.posted = words.posted;
  header.moved = moved_;
  header.session_state = words.state;
  header.session_error = words.error;
  header.flags = page != nullptr ? kReportHasPage : 0;
  header.replies = replies;
  message_.set_front(header);
  const Sent sent = link_->send(message_.bytes());
  if (sent == Sent::kGone) gone_ = true;
  if (sent != Sent::kDone) return false;
  credits_.sent();
  for (uint16_t i = 0; i < replies; ++i) {
    outstanding_[collected_[i] / 64] &= ~(uint64_t{1} << (collected_[i] % 64));
    answered_[answers_sent_++ % protocol::kReplySlots] = collected_[i];
  }
  again_ = false;
  if (page != nullptr) page_ = *page;
  told_ = words;
  moved_ = 0;
  stale_since_ns_ = 0;
  return true;
}

bool GateMover::send_ack() {
  const MessageHeader header{MessageKind::kAck, sizeof(MessageHeader), credits_.received()};
  const Sent sent = link_->send(std::as_bytes(std::span(&header, 1)));
  if (sent == Sent::kGone) gone_ = true;
  if (sent == Sent::kDone) credits_.sent();
  return sent == Sent::kDone;
}

void GateMover::begin_sleep() {
  view_.semaphores()->waiters.waiters.fetch_add(1, std::memory_order_seq_cst);
  view_.header()->producer_sleep.sleeping.store(1, std::memory_order_relaxed);
  view_.host_calls()->guest_sleep.sleeping.store(1, std::memory_order_relaxed);
  // Partner: wake_waiters and ring_doorbell, between their store and their look.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void GateMover::end_sleep() {
  view_.semaphores()->waiters.waiters.fetch_sub(1, std::memory_order_relaxed);
  view_.header()->producer_sleep.sleeping.store(0, std::memory_order_relaxed);
  view_.host_calls()->guest_sleep.sleeping.store(0, std::memory_order_relaxed);
}

}  // namespace vgpu::net
