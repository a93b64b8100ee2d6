// What the applications of the driver API share: checked calls.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_APPS_DRIVER_APP_H_
#define VGPU_TESTS_APPS_DRIVER_APP_H_

#include <cuda.h>

#include <cstdio>
#include <cstdlib>

// Ends the program with 1 and the error's name when a driver call fails.
inline void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::printf("%s: %s\n", what, name != nullptr ? name : "unknown error");
  std::exit(1);
}
#define CHECKED(call) check((call), #call)

#endif  // VGPU_TESTS_APPS_DRIVER_APP_H_
