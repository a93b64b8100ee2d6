// What every test application shares: checked calls, a seeded generator, --timing, one last line.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_APPS_APP_H_
#define VGPU_TESTS_APPS_APP_H_

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace app {

// Ends the program with 1 and the error's name when a runtime call fails.
inline void check(cudaError_t error, const char* what, int line) {
  if (error == cudaSuccess) return;
  std::printf("line %d: %s: %s\n", line, what, cudaGetErrorName(error));
  std::exit(1);
}

// The same numbers on every run and machine (splitmix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  float unit() { return static_cast<float>(next() >> 40) / static_cast<float>(1 << 24); }

 private:
  uint64_t state_;
};

inline uint64_t hash(const void* data, size_t bytes) {  // FNV-1a
  const auto* at = static_cast<const unsigned char*>(data);
  uint64_t value = 14695981039346656037U;
  for (size_t i = 0; i < bytes; ++i) value = (value ^ at[i]) * 1099511628211U;
  return value;
}

inline bool wants(int argc, char** argv, const char* option) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], option) == 0) return true;
  }
  return false;
}

// Times are printed only when asked for, so that output is the same on every run.
class Timer {
 public:
  Timer(int argc, char** argv) : on_(wants(argc, argv, "--timing")) {}
  void report(const char* what) const {
    if (!on_) return;
    const auto passed = std::chrono::steady_clock::now() - start_;
    std::printf("time %s: %.3f ms\n", what,
                std::chrono::duration<double, std::milli>(passed).count());
  }

 private:
  bool on_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The last line and the exit code of every application.
inline int finish(const char* name, bool good) {
  std::printf("%s: %s\n", name, good ? "ok" : "WRONG");
  return good ? 0 : 1;
}

}  // namespace app

#define CHECKED(call) ::app::check((call), #call, __LINE__)

#endif  // VGPU_TESTS_APPS_APP_H_
