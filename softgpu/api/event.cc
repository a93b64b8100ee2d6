// Events: stamps at positions of queues.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/callback_scope.h"
#include "base/clock.h"
#include "driver_functions.h"
#include "softgpu/api/capture_hooks.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/peer_event.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::Driver;
using softgpu::enter;
using softgpu::Event;
using softgpu::EventPoint;
using softgpu::GridManagement;

constexpr unsigned kFlags =
    CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

CUresult look_up(CUevent handle, std::shared_ptr<Event>* event) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  *event = Driver::instance().events.find(handle);
  return *event == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

// A context and an event. No context has to be current.
CUresult look_up(CUcontext handle, CUevent event_handle, std::shared_ptr<Context>* context,
                 std::shared_ptr<Event>* event) {
  Driver& driver = Driver::instance();
  if (const CUresult ready = driver.ready(); ready != CUDA_SUCCESS) return ready;
  if (inside_host_function) return CUDA_ERROR_NOT_PERMITTED;
  *context = driver.contexts.find(handle);
  if (*context == nullptr || !(*context)->alive()) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult sticky = (*context)->sticky(); sticky != CUDA_SUCCESS) return sticky;
  *event = driver.events.find(event_handle);
  return *event == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

}  // namespace

CUresult cuEventCreate(CUevent* out, unsigned int flags) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr || (flags & ~kFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool shared = (flags & CU_EVENT_INTERPROCESS) != 0;
  if (shared && (flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
  auto event = std::make_shared<Event>();
  if (shared) event->peer = softgpu::PeerEvent::create();
  if (shared && event->peer == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  event->context = context;
  event->channel = context->channel();
  event->flags = flags;
  *out = Driver::instance().events.insert(std::move(event));
  return *out == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter_ignoring_errors(&context); result != CUDA_SUCCESS)
    return result;
  graph::forget_event(handle);
  return Driver::instance().events.remove(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE
                                                             : CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned int flags) {
  std::shared_ptr<Event> event;
  if (const CUresult result = look_up(handle, &event); result != CUDA_SUCCESS) return result;
  if ((flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  Context& context = *softgpu::context_stack().top();
  const std::shared_ptr<softgpu::Stream> stream = softgpu::find_stream(context, stream_handle);
  if (stream == nullptr || stream->context != event->context)
    return green::lost_stream(stream_handle);
  if (graph::watching_events()) [[unlikely]] {
    const auto taken = graph::capture_record(softgpu::key_of(*stream), handle, flags != 0);
    if (taken.has_value()) return *taken;
  }
  if (flags != CU_EVENT_RECORD_DEFAULT)
    return CUDA_ERROR_INVALID_VALUE;  // EXTERNAL is for streams that are being captured
  GridManagement& management = context.device().management();
  const bool at_once = management.nothing_before(*stream->queue);
  auto point = std::make_shared<EventPoint>();
  if (at_once) {  // before others see it, so that nobody waits for it
    point->time_ns = monotonic_ns();
    point->reached.store(1, std::memory_order_release);
  }
  {
    std::lock_guard<std::mutex> lock(event->mutex);
    event->point = point;
    event->stream_id = stream->id;
    event->ordinal = 0;
  }
  if (!at_once) {
    auto command = std::make_unique<softgpu::Command>();
    command->record = point;
    const uint64_t ordinal = management.submit(stream->queue, std::move(command));
    std::lock_guard<std::mutex> lock(event->mutex);
    if (event->point == point) event->ordinal = ordinal;
  }
  if (event->peer != nullptr) softgpu::announce(*event, context, *stream, at_once);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return driver::cuEventRecordWithFlags(event, stream, 0);
}

CUresult cuEventQuery(CUevent handle) {
  std::shared_ptr<Event> event;
  if (const CUresult result = look_up(handle, &event); result != CUDA_SUCCESS) return result;
  if (const CUresult r = graph::check_event_use(handle); r != CUDA_SUCCESS) return r;
  const std::shared_ptr<EventPoint> point = event->latest();
  if (event->peer != nullptr
          ? !event->peer->passed(event->peer->page().newest())
          : point != nullptr && point->reached.load(std::memory_order_acquire) == 0) {
    return CUDA_ERROR_NOT_READY;
  }
  return event->channel->sticky();
}

CUresult cuEventSynchronize(CUevent handle) {
  std::shared_ptr<Event> event;
  if (const CUresult result = look_up(handle, &event); result != CUDA_SUCCESS) return result;
  if (const CUresult r = graph::check_event_use(handle); r != CUDA_SUCCESS) return r;
  const std::shared_ptr<EventPoint> point = event->latest();
  if (event->peer != nullptr) softgpu::wait_here(*event);
  if (point != nullptr) {
    event->context->device().management().wait_for(*point);
    event->context->output().flush();
  }
  Driver::instance().pools()->synchronised();
  return event->channel->sticky();
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  std::shared_ptr<Event> start;
  std::shared_ptr<Event> end;
  if (const CUresult result = look_up(start_handle, &start); result != CUDA_SUCCESS) return result;
  if (const CUresult result = look_up(end_handle, &end); result != CUDA_SUCCESS) return result;
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0)
    return CUDA_ERROR_INVALID_HANDLE;
  for (const CUevent each : {start_handle, end_handle}) {
    if (const CUresult r = graph::check_captured(each); r != CUDA_SUCCESS) return r;
  }
  const std::shared_ptr<EventPoint> from = start->latest();
  const std::shared_ptr<EventPoint> to = end->latest();
  if (from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (from->reached.load(std::memory_order_acquire) == 0 ||
      to->reached.load(std::memory_order_acquire) == 0) {
    return CUDA_ERROR_NOT_READY;
  }
  const int64_t elapsed_ns = static_cast<int64_t>(to->time_ns - from->time_ns);
  *milliseconds = static_cast<float>(static_cast<double>(elapsed_ns) / 1e6);
  return CUDA_SUCCESS;
}

CUresult cuCtxRecordEvent(CUcontext handle, CUevent event_handle) {
  if (green::Green* const view = green::find_view(handle)) return green::record(view, event_handle);
  std::shared_ptr<Context> context;
  std::shared_ptr<Event> event;
  if (const CUresult r = look_up(handle, event_handle, &context, &event); r != CUDA_SUCCESS)
    return r;
  if (event->context != context.get()) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult r = graph::check_context_work(handle, nullptr); r != CUDA_SUCCESS) return r;
  graph::forget_event(event_handle);
  auto point = std::make_shared<EventPoint>();
  {
    std::lock_guard<std::mutex> lock(event->mutex);
    event->point = point;
    event->stream_id = 0;  // of no stream
    event->ordinal = 0;
  }
  context->record(point);
  if (event->peer != nullptr) softgpu::announce(*event, *context, point);
  return CUDA_SUCCESS;
}

CUresult cuCtxWaitEvent(CUcontext handle, CUevent event_handle) {
  if (green::Green* const view = green::find_view(handle)) return green::wait(view, event_handle);
  std::shared_ptr<Context> context;
  std::shared_ptr<Event> event;
  if (const CUresult r = look_up(handle, event_handle, &context, &event); r != CUDA_SUCCESS)
    return r;
  if (const CUresult r = graph::check_context_work(handle, event_handle); r != CUDA_SUCCESS)
    return r;
  const std::shared_ptr<EventPoint> point =
      event->peer != nullptr ? softgpu::newest_record(*event, *context) : event->latest();
  if (point != nullptr && point->reached.load(std::memory_order_acquire) == 0)
    context->wait_for(point);
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
