// Waiting in place of the consumer: marks behind work, answers and retirement once they are past.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "op.h"
#include "protocol/ring/doorbell.h"
#include "server/work.h"

namespace vgpu::server {

using protocol::Semaphore;

CUresult Session::mark(Stream* stream, MarkRef* mark) {
  auto made = std::make_shared<Mark>(stream->context);
  CUresult result = stream->context->events.take(driver(), &made->event);
  if (result != CUDA_SUCCESS) return result;
  const uint64_t last_record = stream->last_record;
  result = issue(stream, static_cast<uint16_t>(Op::kEventRecord),
                 [made](const DriverTable& driver, CUstream handle, const std::byte*) {
                   return driver.cuEventRecord(made->event, handle);
                 },
                 {.place = &made->recorded, .instant = true, .ours = true});
  stream->last_record = last_record;  // this is no work of the guest's
  if (result == CUDA_SUCCESS) *mark = std::move(made);
  return result;
}

CUresult Session::mark_context(Context* context, Marks* marks) {
  CUresult result = bind(context);
  std::erase_if(context->dirty, [&](Stream* stream) {
    if (result != CUDA_SUCCESS) return false;
    if (!waits_in_lane(*stream) && driver().cuStreamQuery(stream->handle) == CUDA_SUCCESS) {
      stream->dirty = false;
      return true;
    }
    MarkRef each;
    result = mark(stream, &each);
    if (result == CUDA_SUCCESS) marks->push_back(std::move(each));
    return false;
  });
  std::erase_if(context->orphans, [this](const MarkRef& mark) { return past(*mark); });
  marks->insert(marks->end(), context->orphans.begin(), context->orphans.end());
  return result;
}

CUresult Session::mark_all(Marks* marks) {
  Context* before = bound_;
  CUresult result = CUDA_SUCCESS;
  for (Context& context : contexts_) {
    if (!context.alive() || (context.dirty.empty() && context.orphans.empty())) continue;
    Marks own;
    const CUresult each = mark_context(&context, &own);
    if (result == CUDA_SUCCESS) result = noted(each, &context);
    for (Stream* stream : context.dirty) stream->dirty = false;
    context.dirty.clear();
    marks->insert(marks->end(), own.begin(), own.end());
    context.orphans = std::move(own);  // whoever waits for the context next waits for these as well
  }
  if (before != nullptr && bound_ != before) (void)bind(before);
  return result;
}

// Only the consumer asks, and it ends no context itself.
bool Session::past(const Mark& mark) {
  if (!mark.recorded.passed()) return false;
  const Rundown::Use use(&mark.context->use);
  return !use || driver().cuEventQuery(mark.event) == CUDA_SUCCESS;
}

CUresult Session::wait(const Mark& mark) {
  lanes_.wait(mark.recorded);
  const Rundown::Use use(&mark.context->use);
  if (!use) return CUDA_SUCCESS;  // a context goes only when all its work is past
  (void)driver().cuCtxSetCurrent(mark.context->handle);
  return noted(driver().cuEventSynchronize(mark.event), mark.context);
}

void Session::answer_after(Marks marks, uint32_t reply, Context* context) {
  if (!prints() && std::all_of(marks.begin(), marks.end(),
                               [this](const MarkRef& each) { return past(*each); })) {
    channel_->replies().complete(reply, CUDA_SUCCESS);
    return;
  }
  pool_.post([this, marks = std::move(marks), reply, context] {
    CUresult result = CUDA_SUCCESS;
    for (const MarkRef& mark : marks) {
      const CUresult each = wait(*mark);
      if (result == CUDA_SUCCESS) result = each;
    }
    if (prints()) {
      if (marks.empty()) print_idle(context);
      publish_output();
    }
    channel_->replies().complete(reply, noted(result, context));
  });
}

std::function<void()> Session::behind_all(std::function<void(CUresult)> job) {
  Marks marks;
  (void)mark_all(&marks);  // a broken context: what runs there is past
  return
      [this, asked = bound_, job = std::move(job), marks = std::move(marks), lanes = lane_ends()] {
        for (const LanePoint& point : lanes) lanes_.wait(point);
        CUresult result = CUDA_SUCCESS;
        for (const MarkRef& mark : marks) {
          const CUresult each = wait(*mark);
          if (mark->context == asked && result == CUDA_SUCCESS) result = each;
        }
        job(result);
      };
}

void Session::answer_soon(MarkRef mark, uint32_t reply) {
  if (prints()) return answer_after({mark}, reply, mark->context);
  if (past(*mark)) return channel_->replies().complete(reply, CUDA_SUCCESS);
  if (!mark->recorded.passed()) return answer_after({mark}, reply, mark->context);
  soon_.push_back({std::move(mark), reply, protocol::now_ns() + kSoonNs});
}

bool Session::poll_soon() {
  const int64_t now = protocol::now_ns();
  size_t kept = 0;
  for (Soon& each : soon_) {
    if (past(*each.mark)) {
      channel_->replies().complete(each.reply, CUDA_SUCCESS);
      continue;
    }
    if (now < each.until_ns) {
      if (&soon_[kept] != &each) soon_[kept] = std::move(each);
      ++kept;
      continue;
    }
    Context* context = each.mark->context;
    answer_after({std::move(each.mark)}, each.reply, context);
  }
  soon_.resize(kept);
  return kept != 0;
}

// --- retirement --------------------------------------------------------------------------------

void Session::slab_used(Stream* stream, uint64_t bytes, uint64_t sequence) {
  slab_sequence_ = sequence;
  slab_bytes_ += bytes;
  if (stream != nullptr &&
      std::find(slab_streams_.begin(), slab_streams_.end(), stream) == slab_streams_.end()) {
    slab_streams_.push_back(stream);
  }
}

void Session::forget_slab_stream(Stream* stream) {
  if (std::find(slab_streams_.begin(), slab_streams_.end(), stream) != slab_streams_.end()) {
    flush_slab();
  }
}

void Session::flush_slab() {
  Marks marks;
  Context* before = bound_;
  for (Stream* stream : slab_streams_) {
    if (bound_ != stream->context) (void)bind(stream->context);
    MarkRef each;
    if (noted(mark(stream, &each), stream->context) == CUDA_SUCCESS) {
      marks.push_back(std::move(each));
    }
  }
  if (before != nullptr && bound_ != before) (void)bind(before);
  retire(&slab_queue_, std::move(marks), Semaphore::kSlabRetired, slab_sequence_);
  slab_streams_.clear();
  slab_bytes_ = 0;
  slab_sequence_ = 0;
}

void Session::fence(Marks marks, uint64_t sequence) {
  retire(&fence_queue_, std::move(marks), Semaphore::kFreeRetired, sequence);
}

void Session::let_go(Marks marks, std::shared_ptr<void> held) {
  if (std::all_of(marks.begin(), marks.end(), [this](const MarkRef& each) { return past(*each); }))
    return;
  drop_queue_.post([this, marks = std::move(marks), held = std::move(held)] {
    for (const MarkRef& mark : marks) (void)wait(*mark);
  });
}

// Raises `semaphore` to `sequence` when the marks are past and all earlier ones of this queue are.
void Session::retire(RetirementQueue* queue, Marks marks, Semaphore semaphore, uint64_t sequence) {
  if (!queue->busy() && std::all_of(marks.begin(), marks.end(),
                                    [this](const MarkRef& each) { return past(*each); })) {
    channel_->semaphores().raise(semaphore, sequence);
    return;
  }
  queue->post([this, marks = std::move(marks), semaphore, sequence] {
    // A broken context fails every wait at once: its work is past as well.
    for (const MarkRef& mark : marks) (void)wait(*mark);
    channel_->semaphores().raise(semaphore, sequence);
  });
}

}  // namespace vgpu::server
