// pthread_create with the signal mask that a guest in someone else's process needs.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/engine_thread.h"

#include <pthread.h>
#include <signal.h>

#include <memory>
#include <utility>

#include "base/quiet_thread.h"

namespace vgpu::softgpu {
namespace {

void* run(void* argument) {
  std::unique_ptr<std::function<void()>> body(static_cast<std::function<void()>*>(argument));
  (*body)();
  return nullptr;
}

}  // namespace

bool start_engine_thread(const char* name, std::function<void()> body, size_t stack_bytes) {
  auto argument = std::make_unique<std::function<void()>>(std::move(body));
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_t thread;
  bool started = false;
  {
    const QuietScope quiet({SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP});
    started = pthread_create(&thread, &attributes, run, argument.get()) == 0;
  }
  pthread_attr_destroy(&attributes);
  if (!started) return false;
  argument.release();
  pthread_setname_np(thread, name);
  return true;
}

}  // namespace vgpu::softgpu
