// A thread's mask is the mask of whoever starts it.
// SPDX-License-Identifier: Apache-2.0
#include "base/quiet_thread.h"

#include <pthread.h>

namespace vgpu {

QuietScope::QuietScope(std::initializer_list<int> but) {
  sigset_t all;
  ::sigfillset(&all);
  for (const int each : but) ::sigdelset(&all, each);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

QuietScope::~QuietScope() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

int start_quiet_thread(void* (*run)(void*), void* argument, std::initializer_list<int> but) {
  pthread_attr_t attributes;
  if (const int error = ::pthread_attr_init(&attributes); error != 0) return error;
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  int error = 0;
  {
    const QuietScope quiet(but);
    error = ::pthread_create(&thread, &attributes, run, argument);
  }
  ::pthread_attr_destroy(&attributes);
  return error;
}

}  // namespace vgpu
