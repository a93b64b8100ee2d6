// What calls that are no work of a stream may do while something is captured.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/graph/capture_state.h"
#include "api/graph/memory.h"

namespace vgpu::graph {
namespace {

// Whether the calling thread's mode forbids what `capture` cannot see.
bool forbids(const Capture& capture) {
  const CUstreamCaptureMode mode = thread_mode();
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return false;
  if (capture.thread == this_thread()) return true;
  return mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult forbid_unsafe() {
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : Captures::instance().running) {
    if (!forbids(*capture)) continue;
    capture->invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

}  // namespace

CUresult check_unsafe() {
  if (!watching()) return CUDA_SUCCESS;
  std::lock_guard lock(Model::instance().mutex);
  return forbid_unsafe();
}

CUresult check_stream_use(const StreamKey& stream) {
  if (!watching()) return CUDA_SUCCESS;
  std::lock_guard lock(Model::instance().mutex);
  if (CapturedStream* found = Captures::instance().find(stream)) {
    found->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (const CUresult r = check_legacy(stream, true); r != CUDA_SUCCESS) return r;
  return forbid_unsafe();
}

CUresult check_not_captured(const StreamKey& stream) {
  if (!watching()) return CUDA_SUCCESS;
  std::lock_guard lock(Model::instance().mutex);
  const CapturedStream* found = Captures::instance().find(stream);
  if (found == nullptr) return CUDA_SUCCESS;
  return found->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                 : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult check_event_use(CUevent event) {
  if (!watching_events()) return CUDA_SUCCESS;
  std::lock_guard lock(Model::instance().mutex);
  Captures& captures = Captures::instance();
  const auto recorded = captures.events.find(event);
  if (recorded == captures.events.end()) return forbid_unsafe();
  if (const auto capture = recorded->second.capture.lock()) capture->invalid = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult check_captured(CUevent event) {
  if (!watching_events()) return CUDA_SUCCESS;
  std::lock_guard lock(Model::instance().mutex);
  return Captures::instance().events.count(event) != 0 ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

namespace {

CUresult forbid_streams_of(CUcontext context) {
  CUresult result = CUDA_SUCCESS;
  for (auto& [id, stream] : Captures::instance().streams) {
    if (stream.key.context != context) continue;
    stream.capture->invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

}  // namespace

CUresult check_context_use(CUcontext context) {
  if (!watching()) return CUDA_SUCCESS;
  std::lock_guard lock(Model::instance().mutex);
  const CUresult result = forbid_streams_of(context);
  return result == CUDA_SUCCESS ? forbid_unsafe() : result;
}

CUresult check_context_work(CUcontext context, CUevent awaited) {
  if (!watching_events()) return CUDA_SUCCESS;
  std::lock_guard lock(Model::instance().mutex);
  Captures& captures = Captures::instance();
  const CUresult result = forbid_streams_of(context);
  const auto recorded = captures.events.find(awaited);
  if (recorded == captures.events.end()) return result;
  const std::shared_ptr<Capture> capture = recorded->second.capture.lock();
  if (capture == nullptr) return result == CUDA_SUCCESS ? CUDA_ERROR_CAPTURED_EVENT : result;
  capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

namespace {

// The stream leaves; a capture cannot go on without it, and ends when it began there.
void drop(Captures& captures, uint64_t id) {
  const auto found = captures.streams.find(id);
  if (found == captures.streams.end()) return;
  const std::shared_ptr<Capture> capture = found->second.capture;
  capture->invalid = true;
  captures.streams.erase(found);
  if (capture->origin == id) captures.end(capture, false);
}

}  // namespace

void forget_stream(const StreamKey& stream) {
  if (!watching()) return;
  std::lock_guard lock(Model::instance().mutex);
  drop(Captures::instance(), stream.id);
}

void forget_event(CUevent event) {
  if (!watching_events()) return;
  std::lock_guard lock(Model::instance().mutex);
  Captures::instance().events.erase(event);
  Captures::instance().count();
}

void forget_context(CUcontext context) {
  forget_memory_of(context);
  if (!watching_events()) return;
  std::lock_guard lock(Model::instance().mutex);
  Captures& captures = Captures::instance();
  std::vector<uint64_t> ids;
  for (const auto& [id, stream] : captures.streams) {
    if (stream.key.context == context) ids.push_back(id);
  }
  for (const uint64_t id : ids) drop(captures, id);
  std::erase_if(captures.events, [&](const auto& each) { return each.second.context == context; });
  captures.count();
}

}  // namespace vgpu::graph
