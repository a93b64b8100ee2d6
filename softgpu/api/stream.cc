// Streams.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>

#include "api/green/backend.h"
#include "api/green/resource.h"
#include "driver_functions.h"
#include "softgpu/api/capture_hooks.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/peer_event.h"

namespace vgpu::driver {
namespace {

using softgpu::Command;
using softgpu::Context;
using softgpu::Driver;
using softgpu::enter;
using softgpu::enter_ignoring_errors;
using softgpu::GridManagement;
using softgpu::Stream;

CUresult create(CUstream* out, unsigned flags, int priority, const softgpu::SmSet& sms = nullptr) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (green::Green* const view = softgpu::context_stack().view())
    return green::add_stream(view, flags, priority, out);
  if (out == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto stream = std::make_shared<Stream>();
  stream->context = context;
  stream->channel = context->channel();
  stream->flags = flags;
  stream->priority = std::clamp(priority, softgpu::kPriorityGreatest, softgpu::kPriorityLeast);
  stream->queue = context->device().management().open_queue(
      stream->channel.get(), (flags & CU_STREAM_NON_BLOCKING) == 0, false, stream->priority);
  stream->queue->sms = sms;
  context->add_stream(stream);
  stream->handle = Driver::instance().streams.insert(stream);
  if (stream->handle == nullptr) {
    context->drop_stream(stream);
    context->device().management().close_queue(stream->queue);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = stream->handle;
  return CUDA_SUCCESS;
}

// The stream of a query, with the error that its context carries.
CUresult look_up(CUstream handle, std::shared_ptr<Stream>* stream) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  *stream = softgpu::find_stream(*context, handle);
  return *stream == nullptr ? green::lost_stream(handle) : CUDA_SUCCESS;
}

}  // namespace
}  // namespace vgpu::driver

namespace vgpu::green {

CUresult create_stream(const Green& green, int priority, CUstream* stream) {
  softgpu::SmMask sms;
  sms.words = tag_of(green.resource).words;
  return driver::create(stream, CU_STREAM_NON_BLOCKING, priority,
                        std::make_shared<const softgpu::SmMask>(sms));
}

}  // namespace vgpu::green

namespace vgpu::driver {

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  return create(stream, flags, softgpu::kPriorityLeast);
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  return create(stream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  Context* context = nullptr;
  if (const CUresult result = enter_ignoring_errors(&context); result != CUDA_SUCCESS)
    return result;
  const std::shared_ptr<Stream> stream = Driver::instance().streams.remove(handle);
  if (stream == nullptr) return green::lost_stream(handle);
  green::forget_stream(handle);
  graph::forget_stream(softgpu::key_of(*stream));
  stream->context->drop_stream(stream);
  context->device().management().close_queue(stream->queue);  // what is in it still runs
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = look_up(handle, &stream); result != CUDA_SUCCESS) return result;
  if (const CUresult r = softgpu::check_stream_use(*stream); r != CUDA_SUCCESS) return r;
  GridManagement& management = stream->context->device().management();
  if (!management.nothing_before(*stream->queue)) {
    // A marker takes part in the legacy stream's ordering, so waiting for it waits for all that
    // counts.
    const uint64_t ordinal = management.submit(stream->queue, std::make_unique<Command>());
    management.wait_for(*stream->queue, ordinal);
  }
  stream->context->output().flush();
  Driver::instance().pools()->synchronised();
  return stream->channel->sticky();
}

CUresult cuStreamQuery(CUstream handle) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = look_up(handle, &stream); result != CUDA_SUCCESS) return result;
  if (const CUresult r = softgpu::check_stream_use(*stream); r != CUDA_SUCCESS) return r;
  if (!stream->context->device().management().settled(*stream->queue)) return CUDA_ERROR_NOT_READY;
  return stream->channel->sticky();
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned int flags) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = look_up(handle, &stream); result != CUDA_SUCCESS) return result;
  const std::shared_ptr<softgpu::Event> event = Driver::instance().events.find(event_handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if ((flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (graph::watching_events()) [[unlikely]] {
    const auto taken = graph::capture_wait(softgpu::key_of(*stream), event_handle, flags != 0);
    if (taken.has_value()) return *taken;
  }
  if (flags != CU_EVENT_WAIT_DEFAULT)
    return CUDA_ERROR_INVALID_VALUE;  // EXTERNAL is for streams that are being captured
  if (event->peer != nullptr) {
    softgpu::wait_in_stream(*event, *stream);
    return CUDA_SUCCESS;
  }
  const std::shared_ptr<softgpu::EventPoint> point = event->latest();
  if (point == nullptr || point->reached.load(std::memory_order_acquire) != 0) return CUDA_SUCCESS;
  auto command = std::make_unique<Command>();
  command->waits.push_back(point);
  stream->context->device().management().submit(stream->queue, std::move(command));
  Driver::instance().pools().note_wait(*stream, *event);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = look_up(handle, &stream); result != CUDA_SUCCESS) return result;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = look_up(handle, &stream); result != CUDA_SUCCESS) return result;
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = look_up(handle, &stream); result != CUDA_SUCCESS) return result;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = stream->id;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = look_up(handle, &stream); result != CUDA_SUCCESS) return result;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = green::context_of(handle, stream->context->handle);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = look_up(handle, &stream); result != CUDA_SUCCESS) return result;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = stream->context->device().config().ordinal;
  return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream to_handle, CUstream from_handle) {
  std::shared_ptr<Stream> to, from;
  if (const CUresult result = look_up(to_handle, &to); result != CUDA_SUCCESS) return result;
  if (const CUresult result = look_up(from_handle, &from); result != CUDA_SUCCESS) return result;
  if (to->context != from->context) return CUDA_ERROR_INVALID_VALUE;
  if (to == from) return CUDA_SUCCESS;
  std::scoped_lock lock(to->mutex, from->mutex);
  to->attributes = from->attributes;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID which, CUstreamAttrValue* value) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = look_up(handle, &stream); result != CUDA_SUCCESS) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(stream->mutex);
  return stream->attributes.get(which, stream->priority, value);
}

CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID which,
                              const CUstreamAttrValue* value) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = look_up(handle, &stream); result != CUDA_SUCCESS) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(stream->mutex);
  return stream->attributes.set(which, stream->priority, *value);
}

}  // namespace vgpu::driver
