// Contexts of the process and the stack of current contexts of each thread.
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include <bit>
#include <mutex>
#include <new>

#include "shim/context.h"

namespace vgpu::shim {
namespace {

// Initial-exec: one load on the hot path; a pointer's worth of the static TLS that every process
// keeps spare.
thread_local ThreadState* t_state __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local Context* t_current __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local green::Green* t_view __attribute__((tls_model("initial-exec"))) = nullptr;

pthread_key_t g_thread_key;
pthread_once_t g_thread_key_once = PTHREAD_ONCE_INIT;

std::atomic<ThreadEndHook> g_thread_end{nullptr};

void end_thread(void* state) {
  // acquire: partner is the release in set_thread_end_hook.
  if (auto* hook = g_thread_end.load(std::memory_order_acquire))
    hook(static_cast<ThreadState*>(state));
  t_state = nullptr;
  t_current = nullptr;
  t_view = nullptr;
  delete static_cast<ThreadState*>(state);
}

void make_thread_key() { pthread_key_create(&g_thread_key, end_thread); }

void refresh(ThreadState* state) {
  t_current = state->stack.empty() ? nullptr : state->stack.back().context;
  t_view = state->stack.empty() ? nullptr : state->stack.back().view;
}

}  // namespace

Context* ContextTable::add(CUdevice device, uint32_t slot) {
  const uint64_t id = contexts_.insert();
  if (id == 0) return nullptr;
  Context* context = contexts_.find(id);
  context->id = id;
  context->slot = slot;
  context->device = device;
  context->unique_id = next_unique_id();
  slots_taken_ |= uint64_t{1} << slot;
  return context;
}

Context* ContextTable::add_primary(CUdevice device) {
  std::unique_lock lock(mutex_);
  Context* context =
      add(device, static_cast<uint32_t>(std::countr_one(slots_taken_)) % kContextSlots);
  if (context == nullptr) return nullptr;
  context->primary = true;
  primaries_.push_back(context);
  return context;
}

Context* ContextTable::add_created(CUdevice device, uint32_t flags) {
  std::unique_lock lock(mutex_);
  const auto slot = static_cast<uint32_t>(std::countr_one(slots_taken_));
  if (slot >= kContextSlots) return nullptr;
  Context* context = add(device, slot);
  if (context != nullptr) context->flags.store(flags, std::memory_order_relaxed);
  return context;
}

Context* ContextTable::any_active() {
  std::unique_lock lock(mutex_);
  Context* found = nullptr;
  contexts_.for_each([&](uint64_t, Context& context) {
    if (found == nullptr && context.active.load(std::memory_order_acquire)) found = &context;
  });
  return found;
}

void ContextTable::release_slot(Context* context) {
  std::unique_lock lock(mutex_);
  slots_taken_ &= ~(uint64_t{1} << context->slot);
}

bool ContextTable::set_active(Context* context, bool active) {
  const bool before = context->active.exchange(active, std::memory_order_acq_rel);
  if (before != active) {
    const uint32_t change = active ? 1u : ~0u;
    active_.fetch_add(change, std::memory_order_relaxed);
    active_on_[static_cast<size_t>(context->device)].fetch_add(change, std::memory_order_relaxed);
  }
  return before;
}

void ContextTable::drop_peers(const Context* context) {
  std::lock_guard lock(peers_mutex_);
  std::erase_if(peers_, [context](const auto& each) {
    return each.first == context || each.second == context;
  });
}

void set_thread_end_hook(ThreadEndHook hook) {
  g_thread_end.store(hook, std::memory_order_release);
}

ThreadState* thread_state() {
  if (t_state != nullptr) return t_state;
  pthread_once(&g_thread_key_once, make_thread_key);
  t_state = new (std::nothrow) ThreadState();
  if (t_state != nullptr) pthread_setspecific(g_thread_key, t_state);
  return t_state;
}

Context* current_context() { return t_current; }

green::Green* current_view() { return t_view; }

CUcontext current_handle() {
  if (t_view != nullptr) return t_view->view;
  return t_current == nullptr ? nullptr : t_current->handle();
}

void set_current_context(Context* context, green::Green* view) {
  ThreadState* state = thread_state();
  if (state == nullptr) return;
  if (context == nullptr) {
    if (!state->stack.empty()) state->stack.pop_back();
  } else if (state->stack.empty()) {
    state->stack.push_back({context, view});
  } else {
    state->stack.back() = {context, view};
  }
  refresh(state);
}

void push_current_context(Context* context, green::Green* view) {
  ThreadState* state = thread_state();
  if (state == nullptr) return;
  state->stack.push_back({context, view});
  refresh(state);
}

Context* pop_current_context() {
  ThreadState* state = thread_state();
  if (state == nullptr || state->stack.empty()) return nullptr;
  Context* context = state->stack.back().context;
  state->stack.pop_back();
  refresh(state);
  return context;
}

void drop_current_context(Context* context) {
  if (t_current == context) pop_current_context();
}

}  // namespace vgpu::shim
