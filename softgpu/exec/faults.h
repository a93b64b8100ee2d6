// Catches memory faults of compiled kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csetjmp>
#include <cstdint>

namespace vgpu::softgpu {

// Where a thread goes when the kernel that it runs faults. Lives on the stack of
// BlockRunner::run().
struct FaultTrap {
  sigjmp_buf back;
  int signal = 0;  // SIGSEGV or SIGBUS; 0 = the trap was sprung by a helper
  uint64_t address = 0;
  FaultTrap* outer = nullptr;
};

// Installs the handlers of the process once; handlers found there get every fault that is not a
// kernel's.
void install_fault_handlers();
// While pages change their place under running kernels: faults wait, of whatever thread, and what
// faulted is tried again afterwards. One at a time.
void hold_faults();
void resume_faults();
// Arms and disarms the calling thread. Between the two, faults jump to `trap->back` (sigsetjmp
// first).
void arm(FaultTrap* trap);
void disarm(FaultTrap* trap);
// Runs `work`, which only touches memory: no locks, nothing to be destroyed. False: it faulted.
template <typename Work>
bool runs_without_fault(const Work& work) {
  install_fault_handlers();
  FaultTrap trap;
  if (sigsetjmp(trap.back, 0) != 0) {
    disarm(&trap);
    return false;
  }
  arm(&trap);
  work();
  disarm(&trap);
  return true;
}
// Jumps to the calling thread's trap; it must be armed.
[[noreturn]] void spring_trap();

}  // namespace vgpu::softgpu
