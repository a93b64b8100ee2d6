// Green contexts of the process: a device's primary context with some of the SMs. Each is a list of
// streams over its SMs, one of which stands for the default stream, and a second CUcontext, the
// view, that means the primary one to all calls but those that make or name streams.
// (docs/decisions/0080-green-contexts.md) SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace vgpu::green {

// Never freed, as threads may have its view current; not alive once it is destroyed.
struct Green {
  CUgreenCtx handle = nullptr;
  CUcontext view = nullptr;
  CUcontext primary = nullptr;
  CUdevice device = 0;
  uint64_t unique_id = 0;
  uint64_t partition = 0;  // the back end's name for its SMs
  CUdevResource resource = {};
  CUstream default_stream = nullptr;
  std::atomic<bool> alive{false};  // release: what is above is set

  std::mutex mutex;               // guards what follows
  std::vector<CUstream> streams;  // the program's, and the default one
  CUstream gathering = nullptr;   // comes behind all of them (cuGreenCtxRecordEvent)
  CUstream gate = nullptr;        // waits for what later streams wait for (cuGreenCtxWaitEvent)
  CUevent between = nullptr;      // from one to another of these
};

// Whether there ever was one: what is asked first where a call should cost nothing without.
inline std::atomic<bool> any{false};  // relaxed: who was given a handle sees it

// By CUgreenCtx, and by CUcontext. nullptr: no such handle was ever given. Thread-safe.
Green* find(CUgreenCtx handle);
Green* find_view(CUcontext handle);
// What a context's handle stands for in every table: the primary context of a view, null for that
// of a green context that is gone, and any other handle as it is.
CUcontext base_of(CUcontext handle);

// The one that a created stream is of; nullptr: of none. Streams of one that is gone still count.
Green* owner_of(CUstream stream);
// What a call with a stream's handle that is not in the tables returns: INVALID_HANDLE, or that its
// green context is gone.
CUresult lost_stream(CUstream stream);
// The handle of the context of a stream that was found in `plain`.
CUcontext context_of(CUstream stream, CUcontext plain);

// A stream in `green`, by cuGreenCtxStreamCreate and, where its view is current, by cuStreamCreate.
CUresult add_stream(Green* green, unsigned flags, int priority, CUstream* stream);
// It is destroyed.
void forget_stream(CUstream stream);
// The primary context ends, and with it all green contexts on it; the back end knows of them.
void forget_context(CUcontext primary);

// --- what a view stands for (events.cc)
CUresult synchronize(Green* green);
CUresult record(Green* green, CUevent event);
CUresult wait(Green* green, CUevent event);
// Under green->mutex, with its primary context current: `fresh` waits for what the others have been
// told to wait for.
CUresult catch_up(Green* green, CUstream fresh);

// Makes a context current for the scope.
class CurrentScope {
 public:
  explicit CurrentScope(CUcontext context);
  ~CurrentScope();
  CurrentScope(const CurrentScope&) = delete;
  CurrentScope& operator=(const CurrentScope&) = delete;
  CUresult result() const { return result_; }

 private:
  CUresult result_;
};

// Makes one, with its primary context retained; gives it back.
CUresult create(CUdevice device, const std::vector<CUdevResource>& resources, Green** green);
CUresult destroy(Green* green);

}  // namespace vgpu::green
