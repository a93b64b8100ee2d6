// The child of vgpu bench: a small CUDA program that knows nothing of vGPU and prints times as
// JSON. SPDX-License-Identifier: Apache-2.0 usage: vgpu-bench-guest attach | kernel | steps N |
// calls SCALE | copies REPETITIONS MAX_MIB | managed REPETITIONS MIB | graphs SCALE | graph_steps N
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "tools/bench/driver.h"
#include "tools/bench/measure.h"

namespace {

using vgpu::bench::Driver;

// Everything up to a loaded kernel.
void open_device(Driver* driver) {
  driver->check(driver->cuInit(0), "cuInit");
  CUdevice device = 0;
  driver->check(driver->cuDeviceGet(&device, 0), "cuDeviceGet");
  CUcontext context = nullptr;
  driver->check(driver->cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  driver->check(driver->cuCtxSetCurrent(context), "cuCtxSetCurrent");
  CUmodule module = nullptr;
  driver->check(driver->cuModuleLoadData(&module, vgpu::bench::kEmptyKernel), "cuModuleLoadData");
  driver->check(driver->cuModuleGetFunction(&driver->empty, module, "empty"),
                "cuModuleGetFunction");
}

void attach(Driver* driver) {
  const uint64_t began = vgpu::monotonic_ns();
  driver->check(driver->cuInit(0), "cuInit");
  std::printf("{\"attach_ns\": %llu}\n",
              static_cast<unsigned long long>(vgpu::monotonic_ns() - began));
}

// Ends right behind the first launch, so that the guest's count of round trips is what it took.
void first_kernel(Driver* driver) {
  open_device(driver);
  driver->check(driver->launch_empty(), "cuLaunchKernel");
  std::printf("{\"launched\": 1}\n");
}

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  const int first = argc > 2 ? std::atoi(argv[2]) : 0;
  const int second = argc > 3 ? std::atoi(argv[3]) : 0;
  Driver driver;
  if (!driver.load()) return 2;
  if (std::strcmp(mode, "attach") == 0) {
    attach(&driver);
  } else if (std::strcmp(mode, "kernel") == 0) {
    first_kernel(&driver);
  } else if (std::strcmp(mode, "steps") == 0) {
    open_device(&driver);
    vgpu::bench::run_steps(&driver, first);
  } else if (std::strcmp(mode, "calls") == 0 && first > 0) {
    open_device(&driver);
    vgpu::bench::measure_calls(&driver, first);
  } else if (std::strcmp(mode, "copies") == 0 && first > 0 && second > 0) {
    open_device(&driver);
    vgpu::bench::measure_copies(&driver, first, static_cast<size_t>(second) << 20);
  } else if (std::strcmp(mode, "managed") == 0 && first > 0 && second > 0) {
    open_device(&driver);
    vgpu::bench::measure_managed(&driver, first, static_cast<size_t>(second) << 20);
  } else if (std::strcmp(mode, "graphs") == 0 && first > 0) {
    open_device(&driver);
    vgpu::bench::measure_graphs(&driver, first);
  } else if (std::strcmp(mode, "graph_steps") == 0) {
    open_device(&driver);
    vgpu::bench::run_graphs(&driver, first);
  } else {
    std::fprintf(
        stderr,
        "usage: vgpu-bench-guest attach | kernel | steps N | calls SCALE | "
        "copies REPETITIONS MAX_MIB | managed REPETITIONS MIB | graphs SCALE | graph_steps N\n");
    return 2;
  }
  return 0;
}
