// Catches memory faults of compiled kernels.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/faults.h"

#include <sched.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>

namespace vgpu::softgpu {
namespace {

// initial-exec: a signal handler must not allocate thread-local storage.
thread_local FaultTrap* current_trap __attribute__((tls_model("initial-exec"))) = nullptr;

struct sigaction previous_segv, previous_bus;

// Odd while pages change their place.
std::atomic<uint64_t> moves{0};
thread_local uint64_t moves_seen __attribute__((tls_model("initial-exec"))) = 0;

// Whether a fault may come of pages that changed their place: then it is not believed until it
// happens again.
bool came_of_a_move() {
  uint64_t now;
  while (((now = moves.load(std::memory_order_acquire)) & 1) != 0) ::sched_yield();
  if (now == moves_seen) return false;
  moves_seen = now;
  return true;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool again = came_of_a_move();
  errno = error;
  if (again) return;
  FaultTrap* trap = current_trap;
  if (trap != nullptr) {
    trap->signal = signal;
    trap->address = reinterpret_cast<uint64_t>(info->si_addr);
    siglongjmp(trap->back, 1);
  }
  const struct sigaction& previous = signal == SIGSEGV ? previous_segv : previous_bus;
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    // Back to what the process had; the faulting instruction runs again and meets it.
    sigaction(signal, &previous, nullptr);
  }
}

}  // namespace

void install_fault_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    // NODEFER: the jump out of the handler leaves the signal mask as it was.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
  });
}

// acq_rel: whoever sees an even number again sees the pages where they are now.
void hold_faults() { moves.fetch_add(1, std::memory_order_acq_rel); }
void resume_faults() { moves.fetch_add(1, std::memory_order_acq_rel); }

void arm(FaultTrap* trap) {
  trap->outer = current_trap;
  current_trap = trap;
}

void disarm(FaultTrap* trap) { current_trap = trap->outer; }

void spring_trap() {
  if (current_trap == nullptr) std::abort();  // a helper was called outside of run(): our bug
  current_trap->signal = 0;
  siglongjmp(current_trap->back, 1);
}

}  // namespace vgpu::softgpu
