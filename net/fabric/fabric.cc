// Writing, sending, polling: what both ends do once they are connected.
// SPDX-License-Identifier: Apache-2.0
#include "net/fabric/fabric.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstring>

#include "base/clock.h"

namespace vgpu::net {
namespace {

bool lies_in(std::span<const std::byte> part, std::span<std::byte> whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

}  // namespace

FabricLink::~FabricLink() { shut_down(); }

Sent FabricLink::took(Context* context, ssize_t result) {
  if (result == 0) return Sent::kDone;
  if (context != nullptr) free_.push_back(context);
  if (result == -FI_EAGAIN) return Sent::kFull;
  gone_ = true;
  return Sent::kGone;
}

FabricLink::Context* FabricLink::take(Op op) {
  if (free_.empty()) return nullptr;
  Context* context = free_.back();
  free_.pop_back();
  context->op = op;
  context->token = 0;
  return context;
}

bool FabricLink::reaches(std::span<const std::byte> memory) const {
  return !needs_registration_ || lies_in(memory, local_memory_);
}

Sent FabricLink::write(std::span<const std::byte> from, uint64_t offset, uint64_t token) {
  if (gone_) return Sent::kGone;
  if (from.size() > peer_bytes_ || offset > peer_bytes_ - from.size()) {
    gone_ = true;  // the peer's window is smaller than the channel that it promised
    return Sent::kGone;
  }
  Context* context = take(Op::kWrite);
  if (context == nullptr) return Sent::kFull;
  context->token = token;
  void* description = needs_registration_ ? fi_mr_desc(local_.get()) : nullptr;
  return took(context, fi_write(endpoint_.get(), from.data(), from.size(), description, 0,
                                peer_address_ + offset, peer_key_, context));
}

Sent FabricLink::send(std::span<const std::byte> message) {
  if (gone_) return Sent::kGone;
  if (message.size() <= inject_bytes_max_)
    return took(nullptr, fi_inject(endpoint_.get(), message.data(), message.size(), 0));
  Context* context = take(Op::kSend);
  if (context == nullptr) return Sent::kFull;
  std::memcpy(send_buffer(context->index).data(), message.data(), message.size());
  void* description = needs_registration_ ? fi_mr_desc(messages_.get()) : nullptr;
  return took(context, fi_send(endpoint_.get(), send_buffer(context->index).data(), message.size(),
                               description, 0, context));
}

bool FabricLink::post_receive(Context* context) {
  void* description = needs_registration_ ? fi_mr_desc(messages_.get()) : nullptr;
  const ssize_t result = fi_recv(endpoint_.get(), receive_buffer(context->index).data(),
                                 kMessageBytesMax, description, 0, context);
  return result == 0;
}

bool FabricLink::finish(const fi_cq_data_entry& entry, LinkSink* sink) {
  auto* const context = static_cast<Context*>(entry.op_context);
  if (context == nullptr) return true;
  if (context->op == Op::kReceive) {
    const bool goes_on = entry.len <= kMessageBytesMax &&
                         sink->received(receive_buffer(context->index).first(entry.len));
    return goes_on && post_receive(context);
  }
  if (context->token != 0) sink->written(context->token);
  free_.push_back(context);
  return true;
}

int FabricLink::poll(LinkSink* sink) {
  if (gone_) return -1;
  fi_cq_data_entry entries[kBatch];
  const ssize_t count = fi_cq_read(completions_.get(), entries, batch_);
  if (count == -FI_EAGAIN || count == 0) {
    // Some providers say only there that the peer is gone; what it sent before has come by then.
    if (++empty_polls_ % kEventsEvery != 0 || !events_say_gone()) return 0;
    gone_ = true;
    return -1;
  }
  if (count < 0) {
    // An operation has failed: that is how most providers say that the peer is gone.
    gone_ = true;
    return -1;
  }
  for (ssize_t i = 0; i < count; ++i) {
    if (finish(entries[i], sink)) continue;
    gone_ = true;
    return -1;
  }
  return static_cast<int>(count);
}

bool FabricLink::events_say_gone() {
  uint32_t event = 0;
  fi_eq_cm_entry entry{};
  const ssize_t bytes = fi_eq_read(events_.get(), &event, &entry, sizeof(entry), 0);
  if (bytes == -FI_EAGAIN) return false;
  return bytes < 0 || event == FI_SHUTDOWN;
}

// What came before the peer said goodbye must be handed out first, so that is looked for last.
bool FabricLink::may_sleep() {
  if (gone_) return false;
  fid* objects[] = {&completions_->fid, &events_->fid};
  if (fi_trywait(fabric_, objects, 2) == FI_SUCCESS) return true;
  fid* completions[] = {&completions_->fid};
  if (fi_trywait(fabric_, completions, 1) == FI_SUCCESS && events_say_gone()) gone_ = true;
  return false;
}

void FabricLink::drain(int64_t ns_max) {
  struct Nobody final : LinkSink {
    bool received(std::span<const std::byte> /*message*/) override { return true; }
    void written(uint64_t /*token*/) override {}
  } nobody;
  const uint64_t start = monotonic_ns();
  while (free_.size() < operations_.size() &&
         monotonic_ns() - start < static_cast<uint64_t>(ns_max)) {
    if (poll(&nobody) < 0) return;
  }
}

void FabricLink::shut_down() {
  if (endpoint_ != nullptr && !gone_) (void)fi_shutdown(endpoint_.get(), 0);
  gone_ = true;
}

}  // namespace vgpu::net
