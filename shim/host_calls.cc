// Naming functions and running them when the worker says that a stream is there.
// SPDX-License-Identifier: Apache-2.0
#include "shim/host_calls.h"

#include <signal.h>

#include <mutex>
#include <vector>

#include "api/callback_scope.h"
#include "base/log.h"
#include "base/quiet_thread.h"
#include "shim/session.h"

namespace vgpu::shim {

uint64_t HostCalls::add(Session* session, const HostFunction& function) {
  std::lock_guard lock(mutex_);
  if (!started_) started_ = start(session);
  const uint64_t id = started_ ? functions_.insert(function) : 0;
  if (id != 0) outstanding_.fetch_add(1, std::memory_order_relaxed);
  return id;
}

void HostCalls::remove(uint64_t id) {
  std::lock_guard lock(mutex_);
  if (functions_.remove(id)) outstanding_.fetch_sub(1, std::memory_order_relaxed);
}

void HostCalls::forget(const Context* context) {
  std::vector<uint64_t> ids;
  std::lock_guard lock(mutex_);
  functions_.for_each([&](uint64_t id, const HostFunction& function) {
    if (function.context == context && function.callback == nullptr) ids.push_back(id);
  });
  for (const uint64_t id : ids) functions_.remove(id);
  outstanding_.fetch_sub(static_cast<uint32_t>(ids.size()), std::memory_order_relaxed);
}

// The thread takes no signal that is sent to the application, but those that its functions bring
// about themselves: a handler may live on them. It has a stack like any other of its threads.
bool HostCalls::start(Session* session) {
  const int error =
      start_quiet_thread(run_all, session, {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS});
  if (error != 0) VGPU_LOG_ERROR("no thread for host functions");
  return error == 0;
}

// Until the server is gone or the process ends.
void* HostCalls::run_all(void* argument) {
  auto* session = static_cast<Session*>(argument);
  protocol::HostCallReader& calls = session->channel().host_calls();
  protocol::HostCall call;
  while (calls.next(&call) == protocol::WaitResult::kReady) {
    session->host_calls().run(session, call);
    calls.finish();
  }
  // When it was a claim of the worker's that ended this, nobody may go on waiting for it either.
  session->channel().mark_dead();
  return nullptr;
}

// A name that is not (any more) one of ours is passed over: the worker may say what it likes.
void HostCalls::run(Session* session, const protocol::HostCall& call) {
  HostFunction function;
  {
    std::lock_guard lock(mutex_);
    const HostFunction* found = functions_.find(call.id);
    if (found == nullptr) return;
    function = *found;
    if (!function.repeated) functions_.remove(call.id);
  }
  // Not waiting for room: those who have it may wait for this very function.
  if (function.callback != nullptr) session->output().show(*session, false);
  const HostFunctionScope scope;
  if (function.callback != nullptr) {
    function.callback(function.stream, static_cast<CUresult>(call.status), function.user);
  } else {
    function.function(function.user);
  }
  // release: partner is outstanding().
  if (!function.repeated) outstanding_.fetch_sub(1, std::memory_order_release);
}

}  // namespace vgpu::shim
