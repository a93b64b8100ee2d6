// A legacy default stream for one of several guests in a context. The driver's would order with all
// guests' streams; so each has a stream of ours in its place, no stream of theirs is blocking for
// the driver, and what a legacy stream promises is made of events, among one guest's streams.
// SPDX-License-Identifier: Apache-2.0
#include "op.h"
#include "server/work.h"

namespace vgpu::server {
namespace {

CUresult wait_behind(Session& session, Stream* stream, const MarkRef& mark) {
  return session.issue(
      stream, static_cast<uint16_t>(Op::kStreamWaitEvent),
      [mark](const DriverTable& driver, CUstream handle, const std::byte*) {
        return driver.cuStreamWaitEvent(handle, mark->event, 0);
      },
      {.after = mark->recorded, .instant = session.is_past(mark->event, mark->recorded)});
}

// The default stream waits for all that its context's blocking streams have.
CUresult gather(Session& session, Context* context) {
  Context::OwnDefault& own = context->own_default;
  Marks marks = std::move(own.departed);
  own.departed.clear();
  CUresult result = CUDA_SUCCESS;
  for (Stream* each : own.ahead) {
    MarkRef mark;
    each->ahead = false;
    if (result == CUDA_SUCCESS) result = session.mark(each, &mark);
    if (result == CUDA_SUCCESS) marks.push_back(std::move(mark));
  }
  own.ahead.clear();
  for (const MarkRef& mark : marks) {
    if (result == CUDA_SUCCESS) result = wait_behind(session, &context->legacy, mark);
  }
  return result;
}

// A blocking stream waits for what the default stream has.
CUresult follow(Session& session, Stream* stream) {
  Context::OwnDefault& own = stream->context->own_default;
  if (stream->behind == own.works) return CUDA_SUCCESS;
  if (own.marked != own.works) {
    if (const CUresult result = session.mark(&stream->context->legacy, &own.mark);
        result != CUDA_SUCCESS) {
      return result;
    }
    own.marked = own.works;
  }
  stream->behind = own.works;
  return wait_behind(session, stream, own.mark);
}

}  // namespace

CUresult Session::own_default_stream(Context* context) {
  (void)driver().cuCtxSetCurrent(context->handle);
  CUstream made = nullptr;
  const CUresult result = driver().cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, 0);
  (void)driver().cuCtxSetCurrent(bound_ != nullptr ? bound_->handle : home());
  if (result != CUDA_SUCCESS) return result;
  context->legacy.handle = made;
  context->legacy.ordered = true;
  return CUDA_SUCCESS;
}

CUresult Session::order(Stream* stream, const WorkOptions& options) {
  if (ordering_) return CUDA_SUCCESS;
  ordering_ = true;
  Context::OwnDefault& own = stream->context->own_default;
  const CUresult result = stream->legacy ? gather(*this, stream->context) : follow(*this, stream);
  ordering_ = false;
  if (options.ours) return result;
  if (stream->legacy) {
    ++own.works;
  } else if (!stream->ahead) {
    stream->ahead = true;
    own.ahead.push_back(stream);
  }
  return result;
}

CUresult Session::depart(Stream* stream) {
  if (!stream->ahead) return CUDA_SUCCESS;
  std::erase(stream->context->own_default.ahead, stream);
  stream->ahead = false;
  MarkRef mark;
  const CUresult result = this->mark(stream, &mark);
  if (result == CUDA_SUCCESS) stream->context->own_default.departed.push_back(std::move(mark));
  return result;
}

}  // namespace vgpu::server
