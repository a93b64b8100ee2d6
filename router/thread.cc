// Stacks of current contexts.
// SPDX-License-Identifier: Apache-2.0
#include "router/thread.h"

#include <pthread.h>

#include <new>

#include "router/place.h"

namespace vgpu::router {
namespace {

thread_local Thread* t_thread __attribute__((tls_model("initial-exec"))) = nullptr;
pthread_key_t g_key;
pthread_once_t g_key_once = PTHREAD_ONCE_INIT;

void end_thread(void* state) {
  t_thread = nullptr;
  t_current = nullptr;
  delete static_cast<Thread*>(state);
}
void make_key() { ::pthread_key_create(&g_key, end_thread); }

void bind(Thread* state, Server* server, CUcontext context) {
  if (state->bound[server->number] == context) return;
  (void)server->driver.cuCtxSetCurrent(context);
  state->bound[server->number] = context;
}

void refresh(Thread* state) {
  if (!state->stack.empty()) {
    t_current = owner_of(state->stack.back());
    bind(state, t_current, state->stack.back());
    return;
  }
  t_current = nullptr;
  for (Server& server : Servers::attached()->all()) bind(state, &server, nullptr);
}

}  // namespace

Thread* thread() {
  if (t_thread != nullptr) return t_thread;
  ::pthread_once(&g_key_once, make_key);
  t_thread = new (std::nothrow) Thread();
  if (t_thread != nullptr) ::pthread_setspecific(g_key, t_thread);
  return t_thread;
}

CUcontext current_context() {
  return t_thread == nullptr || t_thread->stack.empty() ? nullptr : t_thread->stack.back();
}

void set_current(CUcontext context) {
  Thread* state = thread();
  if (state == nullptr) return;
  if (context == nullptr) {
    if (!state->stack.empty()) state->stack.pop_back();
  } else if (state->stack.empty()) {
    state->stack.push_back(context);
  } else {
    state->stack.back() = context;
  }
  refresh(state);
}

void push_current(CUcontext context) {
  Thread* state = thread();
  if (state == nullptr) return;
  state->stack.push_back(context);
  refresh(state);
}

CUcontext pop_current() {
  Thread* state = thread();
  if (state == nullptr || state->stack.empty()) return nullptr;
  const CUcontext context = state->stack.back();
  state->stack.pop_back();
  refresh(state);
  return context;
}

void drop_current(CUcontext context) {
  if (current_context() == context) (void)pop_current();
}

bool visit(Server* server, CUcontext preferred) {
  Thread* state = t_current != nullptr ? thread() : nullptr;
  if (state == nullptr || server == t_current) return state != nullptr;
  const CUcontext bound = state->bound[server->number];
  bind(state, server, server->library->some_context(preferred != nullptr ? preferred : bound));
  return state->bound[server->number] != nullptr;
}

void settle(Server* server, bool pushed) {
  Thread* state = thread();
  if (state == nullptr) return;
  CUcontext left = nullptr;
  if (pushed) (void)server->driver.cuCtxPopCurrent_v2(&left);
  (void)server->driver.cuCtxGetCurrent(&left);
  state->bound[server->number] = left;
}

}  // namespace vgpu::router
