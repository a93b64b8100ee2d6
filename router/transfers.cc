// Streams that wait for this process: lines, and the host functions that say where they are.
// SPDX-License-Identifier: Apache-2.0
#include "router/transfers.h"

#include "base/log.h"
#include "router/place.h"

namespace vgpu::router {
namespace {

constexpr size_t kWordBytes = 4;

// The default stream of a thread is its own.
const void* whose(CUstream stream) {
  static thread_local char own = 0;
  return stream == CU_STREAM_PER_THREAD ? &own : nullptr;
}

// Work with a context that may not be the current one.
template <typename Run>
CUresult inside(Server& server, CUcontext context, Run run) {
  CUcontext before = nullptr;
  (void)server.driver.cuCtxGetCurrent(&before);
  if (before == context) return run();
  if (CUresult r = server.driver.cuCtxPushCurrent_v2(context); r != CUDA_SUCCESS) return r;
  const CUresult result = run();
  (void)server.driver.cuCtxPopCurrent_v2(&before);
  return result;
}

// Work for others has no place in a graph.
CUresult refuse_capture(Server& server, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult r = server.driver.cuStreamIsCapturing(stream, &status);
  if (r != CUDA_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_NONE) return r;
  return refuse_across("a captured stream with work of another server");
}

}  // namespace

Transfers& transfers() {
  static auto* const all = new Transfers;  // NOLINT: calls come at exit
  return *all;
}

CUresult Transfers::borrow(Server& server, CUcontext context, CUstream* stream) {
  {
    std::lock_guard lock(mutex_);
    std::vector<CUstream>& idle = helpers_[{server.number, context}];
    if (!idle.empty()) {
      *stream = idle.back();
      idle.pop_back();
      return CUDA_SUCCESS;
    }
  }
  return inside(server, context,
                [&] { return server.driver.cuStreamCreate(stream, CU_STREAM_NON_BLOCKING); });
}

void Transfers::give_back(const Server& server, CUcontext context, CUstream stream) {
  std::lock_guard lock(mutex_);
  helpers_[{server.number, context}].push_back(stream);
}

CUresult Transfers::make_line(Server& server, CUcontext context, std::shared_ptr<Line>* out) {
  auto line = std::make_shared<Line>();
  line->server = &server;
  line->context = context;
  const CUresult result = inside(server, context, [&] {
    const uint32_t zero = 0;
    CUresult r = server.driver.cuMemAlloc_v2(&line->word, kWordBytes);
    if (r == CUDA_SUCCESS) r = server.driver.cuMemcpyHtoD_v2(line->word, &zero, sizeof(zero));
    return r;
  });
  if (result == CUDA_SUCCESS) *out = std::move(line);
  return result;
}

CUresult Transfers::line_of(Server& server, CUstream stream, std::shared_ptr<Line>* out) {
  if (stream == nullptr) stream = CU_STREAM_LEGACY;
  CUcontext context = nullptr;
  if (CUresult r = server.driver.cuStreamGetCtx(stream, &context); r != CUDA_SUCCESS) return r;
  const StreamKey key{server.number, context, stream, whose(stream)};
  {
    std::lock_guard lock(mutex_);
    if (!start()) return CUDA_ERROR_OUT_OF_MEMORY;
    std::shared_ptr<Line>& known = lines_[key];
    auto& unused = unused_lines_[{server.number, context}];
    if (known == nullptr && !unused.empty()) {
      known = std::move(unused.back());
      unused.pop_back();
    }
    *out = known;
    if (known != nullptr) return CUDA_SUCCESS;
  }
  if (CUresult r = make_line(server, context, out); r != CUDA_SUCCESS) return r;
  std::lock_guard lock(mutex_);
  any_lines_.store(true, std::memory_order_relaxed);
  std::shared_ptr<Line>& known = lines_[key];
  if (known == nullptr) {
    known = *out;
  } else {  // another thread was faster
    unused_lines_[{server.number, context}].push_back(std::move(*out));
    *out = known;
  }
  return CUDA_SUCCESS;
}

uint64_t Transfers::open(Job job) {
  std::lock_guard lock(mutex_);
  const uint64_t id = next_job_++;
  outstanding_.fetch_add(1, std::memory_order_relaxed);
  pending_.emplace(id, std::move(job));
  return id;
}

void Transfers::begin_locked(std::map<uint64_t, Job>::iterator job) {
  ready_.push_back(std::move(job->second));
  pending_.erase(job);
  ready_changed_.notify_one();
}

// A name that is not pending any more has been taken away meanwhile: its context has ended.
void Transfers::begin(void* id) {
  Transfers& all = transfers();
  std::lock_guard lock(all.mutex_);
  const auto job = all.pending_.find(reinterpret_cast<uint64_t>(id));
  if (job != all.pending_.end()) all.begin_locked(job);
}

// The host function could not be had: the number must be past nevertheless.
void Transfers::start_without(uint64_t id) {
  std::lock_guard lock(mutex_);
  const auto job = pending_.find(id);
  if (job == pending_.end()) return;
  job->second.work = nullptr;
  begin_locked(job);
}

CUresult Transfers::enter(Job job, CUstream begins, CUstream stream) {
  const std::shared_ptr<Line> line = job.line;
  const Server& at = *job.at;
  std::lock_guard in_order(line->order);
  {
    std::lock_guard lock(mutex_);
    job.number = ++line->submitted;
  }
  const uint32_t number = job.number;
  const uint64_t id = open(std::move(job));
  const CUresult r = at.driver.cuLaunchHostFunc(begins, begin, reinterpret_cast<void*>(id));
  if (r != CUDA_SUCCESS) {
    start_without(id);
    return r;
  }
  return line->server->driver.cuStreamWaitValue32_v2(stream, line->word, number,
                                                     CU_STREAM_WAIT_VALUE_GEQ);
}

CUresult Transfers::submit(Server& server, CUstream stream, Work work) {
  if (CUresult r = refuse_capture(server, stream); r != CUDA_SUCCESS) return r;
  Job job;
  if (CUresult r = line_of(server, stream, &job.line); r != CUDA_SUCCESS) return r;
  job.work = std::move(work);
  job.at = &server;
  job.at_context = job.line->context;
  return enter(std::move(job), stream, stream);
}

CUresult Transfers::wait_for(Server& server, CUstream stream, Server& other, CUevent event) {
  const CUresult now = other.driver.cuEventQuery(event);
  if (now == CUDA_ERROR_CAPTURED_EVENT) return refuse_across("a captured event of another server");
  if (now != CUDA_ERROR_NOT_READY) return now;
  if (CUresult r = refuse_capture(server, stream); r != CUDA_SUCCESS) return r;
  Job job;
  if (CUresult r = line_of(server, stream, &job.line); r != CUDA_SUCCESS) return r;
  job.at = &other;
  if (CUresult r = other.driver.cuCtxGetCurrent(&job.at_context); r != CUDA_SUCCESS) return r;
  if (CUresult r = borrow(other, job.at_context, &job.helper); r != CUDA_SUCCESS) return r;
  const CUstream helper = job.helper;
  if (CUresult r = other.driver.cuStreamWaitEvent(helper, event, 0); r != CUDA_SUCCESS) {
    give_back(other, job.at_context, helper);
    return r;
  }
  return enter(std::move(job), helper, stream);
}

CUresult Transfers::told(const Server& server, CUcontext context, CUresult result) {
  if (result != CUDA_SUCCESS || !any_failures_.load(std::memory_order_relaxed)) [[likely]]
    return result;
  std::lock_guard lock(mutex_);
  const auto failure = failures_.find({server.number, context});
  return failure == failures_.end() ? result : failure->second;
}

CUresult Transfers::told(Server& server, CUstream stream, CUresult result) {
  if (result != CUDA_SUCCESS || !any_failures_.load(std::memory_order_relaxed)) [[likely]]
    return result;
  CUcontext context = nullptr;
  if (CUresult r = server.driver.cuStreamGetCtx(stream, &context); r != CUDA_SUCCESS) return r;
  return told(server, context, result);
}

void Transfers::forget(const Server& server, CUstream stream) {
  if (!any_lines_.load(std::memory_order_relaxed)) [[likely]]
    return;
  std::lock_guard lock(mutex_);
  for (auto each = lines_.begin(); each != lines_.end();) {
    if (std::get<0>(each->first) != server.number || std::get<2>(each->first) != stream) {
      ++each;
      continue;
    }
    // The word of one that is still waited for goes with its context.
    const std::shared_ptr<Line>& line = each->second;
    if (line->submitted == line->released)
      unused_lines_[{server.number, line->context}].push_back(line);
    each = lines_.erase(each);
  }
}

void Transfers::forget(const Server& server, CUcontext context) {
  const ContextKey key{server.number, context};
  std::lock_guard lock(mutex_);
  std::erase_if(lines_, [&](const auto& each) {
    const bool gone = std::get<0>(each.first) == key.first && std::get<1>(each.first) == context;
    if (gone) each.second->context_ended = true;
    return gone;
  });
  unused_lines_.erase(key);
  helpers_.erase(key);
  failures_.erase(key);
  for (auto each = pending_.begin(); each != pending_.end();) {
    const auto job = each++;
    if (job->second.at->number != server.number || job->second.at_context != context) continue;
    job->second.work = nullptr;
    job->second.helper = nullptr;
    begin_locked(job);
  }
}

}  // namespace vgpu::router
