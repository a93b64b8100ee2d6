// The process as CUDA sees it: attached or not. The shim's only global.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_PROCESS_H_
#define VGPU_SHIM_PROCESS_H_

#include <cuda.h>

#include <atomic>

#include "api/callback_scope.h"
#include "shim/session.h"

namespace vgpu::shim {

void publish_session(Session* session);
void forget_session_in_child();

class Process {
 public:
  // Attaches on the first call; all later calls give the same answer. Never called before the
  // application's cuInit.
  static CUresult initialize();
  // The session; null before cuInit, after a failed one and in the child of a fork.
  // acquire: partner is the release in initialize().
  static Session* session() { return session_.load(std::memory_order_acquire); }

 private:
  static void publish(Session* session);
  static std::atomic<Session*> session_;
  friend void publish_session(Session* session);
  friend void forget_session_in_child();
};

// For every call that needs a current context. Checks, in this order: cuInit, the session, that no
// host function calls, the context, a sticky error.
inline CUresult enter(Session** session, Context** context) {
  Session* found = Process::session();
  if (found == nullptr) [[unlikely]]
    return CUDA_ERROR_NOT_INITIALIZED;
  if (const CUresult state = found->state(); state != CUDA_SUCCESS) [[unlikely]]
    return state;
  if (inside_host_function) [[unlikely]]
    return CUDA_ERROR_NOT_PERMITTED;
  Context* current = current_context();
  if (current == nullptr) [[unlikely]]
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!current->active.load(std::memory_order_acquire)) [[unlikely]]
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  const int32_t sticky = found->channel().semaphores().sticky(current->slot);
  if (sticky != 0) [[unlikely]]
    return found->show_output(static_cast<CUresult>(sticky));
  *session = found;
  *context = current;
  return CUDA_SUCCESS;
}

// For calls that need no context. Some of them wait, and in a host function that would be for ever.
inline CUresult enter(Session** session) {
  Session* found = Process::session();
  if (found == nullptr) [[unlikely]]
    return CUDA_ERROR_NOT_INITIALIZED;
  *session = found;
  const CUresult state = found->state();
  return state == CUDA_SUCCESS && inside_host_function ? CUDA_ERROR_NOT_PERMITTED : state;
}

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_PROCESS_H_
