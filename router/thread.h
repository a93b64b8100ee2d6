// Each thread's stack of current contexts, whichever server they are of.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_ROUTER_THREAD_H_
#define VGPU_ROUTER_THREAD_H_

#include <cuda.h>

#include <vector>

#include "router/servers.h"

namespace vgpu::router {

// Each server's copy has a stack of its own, which never holds more than one context: the server of
// the top has the top of this one, the others whatever was current there last. When nothing is
// current here, nothing is anywhere.
struct Thread {
  std::vector<CUcontext> stack;
  CUcontext bound[kServersMax] = {};
};

// The server of the current context; null: there is none. Initial-exec: one load on the hot path.
inline thread_local Server* t_current __attribute__((tls_model("initial-exec"))) = nullptr;

// The calling thread's; nullptr only when memory is exhausted.
Thread* thread();
CUcontext current_context();
void set_current(CUcontext context);  // replaces the top; nullptr pops it
void push_current(CUcontext context);
CUcontext pop_current();  // nullptr: the stack is empty
// A context has ended: takes it off the top, where it is there.
void drop_current(CUcontext context);

// Before a call to `server`, which is not that of the current context: gives it a context of its
// own to work in, `preferred` where that is alive. Nothing when nothing is current here. Whether
// there is one.
bool visit(Server* server, CUcontext preferred = nullptr);
// The copy has pushed `context` itself, or dropped one: makes its stack one of one again.
void settle(Server* server, bool pushed);

}  // namespace vgpu::router

#endif  // VGPU_ROUTER_THREAD_H_
