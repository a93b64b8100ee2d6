// The consumer's loop, and what every handler shares.
// SPDX-License-Identifier: Apache-2.0
#include "server/session.h"

#include <algorithm>
#include <cinttypes>

#include "op.h"
#include "server/log.h"

namespace vgpu::server {

using protocol::Semaphore;

bool is_sticky(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return false;
  }
}

std::string result_name(const DriverTable& driver, CUresult result) {
  const char* name = nullptr;
  if (driver.cuGetErrorName != nullptr && driver.cuGetErrorName(result, &name) == CUDA_SUCCESS &&
      name != nullptr) {
    return name;
  }
  return "CUresult " + std::to_string(static_cast<int>(result));
}

Session::Session(const Config& config, protocol::WorkerChannel* channel, DeviceMemory* memory)
    : config_(config), channel_(channel), memory_(memory) {}

Session::~Session() {
  slab_queue_.stop();
  fence_queue_.stop();
  pool_.stop();
}

void Session::release_all() {
  slab_queue_.stop();
  fence_queue_.stop();
  pool_.stop();
  slab_streams_.clear();
  slab_sequence_ = 0;
  for (Context& context : contexts_) {
    if (!context.alive || bind(&context) != CUDA_SUCCESS) continue;
    (void)driver().cuCtxSynchronize();
    forget_context(&context);
    for (const Mark& orphan : context.orphans) context.events.give(orphan.event);
    context.orphans.clear();
    context.events.release_all(driver());
    context.alive = false;
    if (!context.primary) (void)driver().cuCtxDestroy_v2(context.handle);
  }
  modules_.libraries.for_each([&](uint64_t, std::shared_ptr<Module>& module) {
    if (module->library != nullptr) (void)driver().cuLibraryUnload(module->library);
  });
  bound_ = nullptr;
}

SessionEnd Session::run() {
  protocol::Consumer& consumer = channel_->consumer();
  if (memory_->back_ahead()) {
    channel_->semaphores().raise(Semaphore::kBackedCredit, memory_->backed_bytes());
  }
  protocol::Record record;
  while (true) {
    const protocol::PeekResult peeked = consumer.peek(&record);
    if (peeked == protocol::PeekResult::kRecord) [[likely]] {
      if (!step(record)) break;
      consumer.release();
      continue;
    }
    if (peeked == protocol::PeekResult::kMalformed) {
      end_ = SessionEnd::kMalformed;
      fail(CUDA_ERROR_UNKNOWN, "malformed record: " + consumer.error().text());
      break;
    }
    if (consumer.dead()) break;
    idle();
    (void)consumer.wait();
  }
  return end_;
}

bool Session::step(const protocol::Record& record) {
  const Record command(record);
  if (!dispatch(*this, command)) return false;
  executed_ = record.sequence;
  if (executed_ - executed_published_ >= kExecutedBatch) {
    executed_published_ = executed_;
    channel_->semaphores().raise(Semaphore::kExecuted, executed_);
  }
  if (slab_bytes_ >= kSlabFlushBytes) flush_slab();
  return true;
}

void Session::idle() {
  if (executed_published_ != executed_) {
    executed_published_ = executed_;
    channel_->semaphores().raise(Semaphore::kExecuted, executed_);
  }
  if (slab_sequence_ != 0) flush_slab();
  if (memory_->back_ahead()) {
    channel_->semaphores().raise(Semaphore::kBackedCredit, memory_->backed_bytes());
  }
}

void Session::fail(CUresult result, std::string reason) {
  reason_ = std::move(reason);
  log(Level::kError, "session ends: %s", reason_.c_str());
  channel_->semaphores().set_state(protocol::SessionState::kFailed, result);
}

bool Session::malformed(const Record& record, const char* what) {
  const char* name = op_name(record.op());
  end_ = SessionEnd::kMalformed;
  fail(CUDA_ERROR_UNKNOWN, "malformed record " + std::to_string(record.sequence()) + " (" +
                               (name != nullptr ? name : "op " + std::to_string(record.op())) +
                               "): " + what);
  return false;
}

bool Session::refuse(const Record& record, const char* function) {
  log(Level::kWarn, "the driver has no %s", function);
  return complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
}

bool Session::complete(const Record& record, CUresult result, const void* payload, size_t bytes) {
  if (record.reply() == protocol::kNoReply) return forgotten(record, result);
  noted(result, bound_);
  channel_->replies().complete(
      record.reply(), result,
      std::span<const std::byte>(static_cast<const std::byte*>(payload), bytes));
  return true;
}

bool Session::forgotten(const Record& record, CUresult result) {
  if (result == CUDA_SUCCESS) [[likely]]
    return true;
  if (is_sticky(result)) {
    noted(result, bound_);
    return true;
  }
  const char* name = op_name(record.op());
  end_ = SessionEnd::kDriverFailed;
  fail(result, std::string("the driver refused ") + (name != nullptr ? name : "a command") +
                   ", which the guest had accepted: " + result_name(driver(), result));
  return false;
}

CUresult Session::noted(CUresult result, const Context* context) {
  if (result != CUDA_SUCCESS && is_sticky(result) && context != nullptr) [[unlikely]] {
    log(Level::kWarn, "context %u: device fault %s", context->slot,
        result_name(driver(), result).c_str());
    channel_->semaphores().set_sticky(context->slot, result);
  }
  return result;
}

// --- streams and events ------------------------------------------------------------------------

Stream* Session::find_stream(uint64_t id) {
  if (bound_ == nullptr) return nullptr;
  if (id == kLegacyStream) return &bound_->legacy;
  return streams_.find(id);
}

bool Session::stream(uint64_t id, CUstream* handle) {
  Stream* found = find_stream(id);
  if (found != nullptr) *handle = found->handle;
  return found != nullptr;
}

bool Session::event(uint64_t id, CUevent* handle) {
  EventEntry* found = events_.find(id);
  if (found != nullptr) *handle = found->event->handle;
  return found != nullptr;
}

void Session::touch(Stream* stream) {
  if (stream->dirty) return;
  stream->dirty = true;
  stream->context->dirty.push_back(stream);
}

bool Session::device_idle() {
  for (Context& context : contexts_) {
    if (!context.alive) continue;
    if (!context.orphans.empty()) return false;
    for (Stream* stream : context.dirty) {
      if (driver().cuStreamQuery(stream->handle) != CUDA_SUCCESS) return false;
    }
  }
  all_past();
  return true;
}

void Session::all_past() {
  for (Context& context : contexts_) {
    for (Stream* stream : context.dirty) stream->dirty = false;
    context.dirty.clear();
  }
}

CUresult Session::mark(Stream* stream, Mark* mark) {
  Context* context = stream->context;
  mark->context = context;
  CUresult result = context->events.take(driver(), &mark->event);
  if (result != CUDA_SUCCESS) return result;
  result = driver().cuEventRecord(mark->event, stream->handle);
  if (result != CUDA_SUCCESS) context->events.give(mark->event);
  return result;
}

CUresult Session::mark_all(std::vector<Mark>* marks) {
  Context* before = bound_;
  CUresult result = CUDA_SUCCESS;
  for (Context& context : contexts_) {
    if (!context.alive || (context.dirty.empty() && context.orphans.empty())) continue;
    if (result == CUDA_SUCCESS) result = bind(&context);
    for (Stream* stream : context.dirty) {
      Mark each;
      if (result == CUDA_SUCCESS) result = mark(stream, &each);
      if (result == CUDA_SUCCESS) marks->push_back(each);
      stream->dirty = false;
    }
    context.dirty.clear();
    marks->insert(marks->end(), context.orphans.begin(), context.orphans.end());
    context.orphans.clear();
  }
  if (before != nullptr && bound_ != before) (void)bind(before);
  return result;
}

CUresult Session::wait(const Mark& mark) {
  (void)driver().cuCtxSetCurrent(mark.context->handle);
  const CUresult result = driver().cuEventSynchronize(mark.event);
  mark.context->events.give(mark.event);
  return noted(result, mark.context);
}

void Session::answer_after(std::vector<Mark> marks, uint32_t reply, Context* context) {
  bool past = true;
  for (const Mark& mark : marks) past = past && driver().cuEventQuery(mark.event) == CUDA_SUCCESS;
  if (past) {
    for (const Mark& mark : marks) mark.context->events.give(mark.event);
    channel_->replies().complete(reply, CUDA_SUCCESS);
    return;
  }
  pool_.post([this, marks = std::move(marks), reply, context] {
    CUresult result = CUDA_SUCCESS;
    for (const Mark& mark : marks) {
      const CUresult each = wait(mark);
      if (result == CUDA_SUCCESS) result = each;
    }
    channel_->replies().complete(reply, noted(result, context));
  });
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
  std::vector<Mark> marks;
  Context* before = bound_;
  for (Stream* stream : slab_streams_) {
    Mark each;
    if (bound_ != stream->context) (void)bind(stream->context);
    if (noted(mark(stream, &each), stream->context) == CUDA_SUCCESS) marks.push_back(each);
  }
  if (before != nullptr && bound_ != before) (void)bind(before);
  retire(&slab_queue_, std::move(marks), Semaphore::kSlabRetired, slab_sequence_);
  slab_streams_.clear();
  slab_bytes_ = 0;
  slab_sequence_ = 0;
}

void Session::fence(std::vector<Mark> marks, uint64_t sequence) {
  retire(&fence_queue_, std::move(marks), Semaphore::kFreeRetired, sequence);
}

// Raises `semaphore` to `sequence` when the marks are past and all earlier ones of this queue are.
void Session::retire(RetirementQueue* queue, std::vector<Mark> marks, Semaphore semaphore,
                     uint64_t sequence) {
  if (!queue->busy()) {
    bool past = true;
    for (const Mark& mark : marks) past = past && driver().cuEventQuery(mark.event) == CUDA_SUCCESS;
    if (past) {
      for (const Mark& mark : marks) mark.context->events.give(mark.event);
      channel_->semaphores().raise(semaphore, sequence);
      return;
    }
  }
  queue->post([this, marks = std::move(marks), semaphore, sequence] {
    // A broken context fails every wait at once: its work is past as well.
    for (const Mark& mark : marks) (void)wait(mark);
    channel_->semaphores().raise(semaphore, sequence);
  });
}

}  // namespace vgpu::server
