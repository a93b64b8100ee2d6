// Time: the monotonic clock, the cycle counter and the spin hint.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_CLOCK_H_
#define VGPU_BASE_CLOCK_H_

#include <time.h>

#include <cstdint>

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif

namespace vgpu {

// Nanoseconds of CLOCK_MONOTONIC: the same clock in every process of the machine. Thread-safe.
inline uint64_t monotonic_ns() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t monotonic_ms() { return monotonic_ns() / 1'000'000; }

// CPU time of the calling thread in nanoseconds.
inline uint64_t thread_cpu_ns() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(now.tv_nsec);
}

// The time stamp counter on x86, else nanoseconds. For measuring and traces, not for waiting: its
// unit is not nanoseconds and it does not order memory.
inline uint64_t cycle_count() {
#if defined(__x86_64__) || defined(__i386__)
  return __rdtsc();
#else
  return monotonic_ns();
#endif
}

// Tells the CPU that this is a spin loop.
inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace vgpu

#endif  // VGPU_BASE_CLOCK_H_
